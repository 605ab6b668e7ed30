"""Let torch compile the model with its weights as constants.

What it does: it compiles with inductor's `freezing`: weights become part of the code, are laid out once as the CPU's
library wants them, and normalisations are folded into them.

When it applies: inference with weights that no longer change, under `torch.no_grad()`. Convolutions on a CPU gain most.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Weights that change later do not reach the code.

Source: https://docs.pytorch.org/tutorials/intermediate/inductor_debug_cpu.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Machine, Root
from profiler_doctor.fixes._compiling import compiled, has_compiler
from profiler_doctor.fixes._engine import fits_inference


def _applies(machine: Machine) -> str | None:
    return fits_inference(machine) or has_compiler(machine)


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch
    from torch._inductor import config

    no_grad, frozen = torch.no_grad, config.patch(freezing=True)
    with compiled(root) as compiled_call:

        def called(*args: Any, **kwargs: Any) -> Any:
            with no_grad():  # weights that could be trained are not frozen
                return compiled_call(*args, **kwargs)

        with frozen:
            called(*root.args, **root.kwargs)  # what is compiled later, for other shapes, is not frozen
        yield called


FIX = Fix(
    name="compile-freezing",
    doc=__doc__,
    cures=("FUS005", "LAY004"),
    snippet="""\
torch._inductor.config.freezing = True
model = torch.compile(model.eval())
with torch.no_grad():
    output = model(inputs)
""",
    changes_numbers="by rounding (1e-7 to 1e-6 in float32)",
    rank=COMPILER_RANK,
    applies=_applies,
    treat=_treat,
    freezes=True,
    variant_of="compile",
    excludes=ENGINE,
)
