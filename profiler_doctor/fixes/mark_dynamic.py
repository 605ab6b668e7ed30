"""Let torch compile the model for batches of any size, and for nothing else that varies.

What it does: it marks the first dimension of every input tensor as one that changes (`mark_dynamic`), and compiles the
model where the script does not. All other sizes stay numbers in the compiled code.

When it applies: the batch size differs from call to call and nothing else does. A model that needs a certain batch size
cannot be compiled so, and says it.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Machine, Root
from profiler_doctor.fixes._compiling import can_compile, compiled
from profiler_doctor.fixes._nested import replaced


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch
    from torch import _dynamo

    def marked(tensor: Any) -> Any:
        if tensor.dim() and tensor.shape[0] > 1:  # torch treats sizes 0 and 1 as numbers in any case
            _dynamo.mark_dynamic(tensor, 0)
        return tensor

    compiles = nullcontext(root.call) if _is_compiled(root.module) else compiled(root)
    with compiles as compiled_call:

        def called(*args: Any, **kwargs: Any) -> Any:
            replaced((args, kwargs), torch.Tensor, marked)
            return compiled_call(*args, **kwargs)

        yield called


def _is_compiled(module: Any) -> bool:
    """Whether the script has compiled it already, by `torch.compile(model)` or by `model.compile()`."""
    return "_orig_mod" in module._modules or vars(module).get("_compiled_call_impl") is not None


def _applies(machine: Machine) -> str | None:
    if machine.compiled and machine.has_root:
        return None
    return can_compile(machine)


FIX = Fix(
    name="mark-dynamic",
    doc=__doc__,
    cures=("COM002",),
    snippet="""\
torch._dynamo.mark_dynamic(inputs, 0)
model = torch.compile(model)
""",
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK,
    applies=_applies,
    treat=_treat,
    variant_of="compile",
    excludes=ENGINE,
)
