"""Keep images in the memory order that convolutions read.

What it does: it lays the 4-D weights out as channels-last (NHWC in memory, same shapes) and hands every 4-D
floating-point input over in that order, so that the convolution library need not reorder at each layer.

When it applies: a model of dense convolutions. Depthwise and grouped ones, first layers of few channels, and
InstanceNorm can lose; so can code that calls `.view()` on an activation, which then fails.

How results may change: by rounding, because another kernel runs (relative 3e-7 measured in float32). Outputs have other
strides.

Source: https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._nested import replaced


def _applies(machine: Machine) -> str | None:
    if not machine.has_root:
        return "no module was called"
    return None if 4 in machine.input_ranks else "the model takes no 4-D input"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch

    def reordered(tensor: Any) -> Any:
        if tensor.dim() == 4 and tensor.is_floating_point():
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    def in_channels_last(*args: Any, **kwargs: Any) -> Any:
        return root.call(*replaced(args, torch.Tensor, reordered), **_named(replaced(kwargs, torch.Tensor, reordered)))

    weights = [weight for weight in root.module.parameters() if weight.dim() == 4]
    if not weights:
        raise Unsuitable("the model has no 4-D weights")
    plain = [weight.data for weight in weights]
    try:
        for weight in weights:
            weight.data = reordered(weight.data)
        yield in_channels_last
    finally:
        for weight, data in zip(weights, plain, strict=True):
            if not torch.equal(data, weight.data):  # it was trained in the meantime
                data.copy_(weight.data)
            weight.data = data


def _named(kwargs: Any) -> Mapping[str, Any]:
    return kwargs  # type: ignore[no-any-return]  # `replaced` keeps a dict a dict


FIX = Fix(
    name="channels-last",
    doc=__doc__,
    cures=("LAY001", "LAY002", "LAY003", "LAY004"),
    snippet="""\
model = model.to(memory_format=torch.channels_last)
images = images.to(memory_format=torch.channels_last)  # each batch as the model is given it: 4 dimensions
""",
    changes_numbers="by rounding (3e-7 in float32)",
    rank=3,
    applies=_applies,
    treat=_treat,
)
