"""Compute in float32 where the CPU has no fast float16.

What it does: it runs a float32 copy of the model on float32 copies of its inputs, and gives every output back in the
dtype it had.

When it applies: float16 weights on a CPU, in inference. Half the memory traffic does not make up for arithmetic that
is converted or emulated op by op. A CPU with float16 units may win or lose; the trial tells.

How results may change: they get more exact. Against the float16 outputs they differ by float16's own rounding, up to
1e-2. The float32 copy takes twice the memory.

Source: https://github.com/huggingface/transformers/issues/34692
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._nested import replaced
from profiler_doctor.fixes._standin import Standin, twin


def _applies(machine: Machine) -> str | None:
    if machine.device != "cpu":
        return "the work does not run on a CPU"
    if machine.training:
        return "the script trains, and the float32 copy would not be trained with it"
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch

    if not any(weight.dtype == torch.float16 for weight in root.module.parameters()):
        raise Unsuitable("the model has no float16 weights")
    was_half = _half_outputs(root)
    module = _in_float32(root.module)

    def wide(tensor: Any) -> Any:
        return tensor.float() if tensor.dtype == torch.float16 else tensor

    def in_float32(*args: Any, **kwargs: Any) -> Any:
        output = module(*replaced(args, torch.Tensor, wide), **replaced(kwargs, torch.Tensor, wide))
        places = iter(was_half)

        def narrow(tensor: Any) -> Any:
            # an output of another structure than the one seen keeps to the commoner case
            return tensor.half() if next(places, True) and tensor.dtype == torch.float32 else tensor

        return replaced(output, torch.Tensor, narrow)

    yield Standin(module, in_float32)


def _half_outputs(root: Root) -> list[bool]:
    """Of each output tensor in order, whether the untreated model gives it in float16; told by a call of a copy."""
    import torch

    found: list[bool] = []

    def noted(tensor: Any) -> Any:
        found.append(tensor.dtype == torch.float16)
        return tensor

    module = copy.deepcopy(root.module)
    with torch.no_grad():
        replaced(module(*root.args, **root.kwargs), torch.Tensor, noted)
    return found


def _in_float32(original: Any) -> Any:
    import torch

    module, wide = twin(original), {}
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is None or tensor.dtype != torch.float16:
                    continue
                if id(tensor) not in wide:  # tied weights stay tied
                    wide[id(tensor)] = _widened(tensor)
                table[name] = wide[id(tensor)]
    return module


def _widened(tensor: Any) -> Any:
    import torch

    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(tensor.detach().float(), requires_grad=tensor.requires_grad)
    return tensor.detach().float()


FIX = Fix(
    name="full-precision-on-cpu",
    doc=__doc__,
    cures=("PRC005",),
    snippet="""\
model = model.float()
output = model(inputs.float())
""",
    changes_numbers="they get more exact: up to 1e-2 away from the float16 results",
    rank=5,
    applies=_applies,
    treat=_treat,
    freezes=True,
)
