"""Run the model with weights in bfloat16.

What it does: it runs a bfloat16 copy of the model on bfloat16 copies of its floating-point inputs; outputs come back in
the type they had. Half the memory is read for each weight, and nothing is cast on the way.

When it applies: inference on a GPU, or on a CPU with bfloat16 units. Layers that need float32 (a softmax over many
classes, long sums) lose more than under autocast.

How results may change: by bfloat16's rounding in every layer, 4e-3 to 2e-2.

Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._lowered import TOLERANCE, has_bf16, restored, types_of_outputs
from profiler_doctor.fixes._nested import replaced
from profiler_doctor.fixes._standin import Standin


def _applies(machine: Machine) -> str | None:
    return "the script trains" if machine.training else has_bf16(machine)


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import copy

    import torch

    if not any(weight.dtype == torch.float32 for weight in root.module.parameters()):
        raise Unsuitable("the model has no float32 weights")
    lowered = copy.deepcopy(root.module).to(torch.bfloat16)

    def narrow(tensor: Any) -> Any:
        return tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor

    def in_bfloat16(*args: Any, **kwargs: Any) -> Any:
        return lowered(*replaced(args, torch.Tensor, narrow), **replaced(kwargs, torch.Tensor, narrow))

    yield Standin(lowered, restored(in_bfloat16, types_of_outputs(root)))


FIX = Fix(
    name="weights-bf16",
    doc=__doc__,
    cures=("PRC002", "PRC003"),
    snippet="""\
model = model.to(torch.bfloat16)
output = model(inputs.to(torch.bfloat16)).float()
""",
    changes_numbers="by bfloat16's rounding: up to 2e-2",
    rank=5,
    tolerance=TOLERANCE,
    applies=_applies,
    treat=_treat,
    freezes=True,
    variant_of="autocast-bf16",
    excludes="precision",
)
