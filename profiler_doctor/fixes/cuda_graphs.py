"""Launch the model's kernels as one graph.

What it does: it records the kernels of one call as a CUDA graph (`make_graphed_callables`) and replays them with a
single launch. Each shape of inputs gets a graph of its own; inputs are copied to where the graph reads them.

When it applies: inference on a GPU that waits for its launches, with few shapes, without a decision on values in the
call and without a copy to the host.

How results may change: not at all. The graph's memory stays taken, and an output is overwritten by the next call of
the same shape, so it is copied here.

Source: https://docs.pytorch.org/docs/stable/generated/torch.cuda.make_graphed_callables.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import ENGINE, Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._cuda import on_cuda
from profiler_doctor.fixes._engine import first_line, fits_inference, handed_over


def _applies(machine: Machine) -> str | None:
    return fits_inference(machine) or on_cuda(machine)


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    yield handed_over(root, _graphed, outside="left")


def _graphed(module: Any, tensors: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
    import torch

    if not all(tensor.is_cuda for tensor in tensors):
        raise Unsuitable("the model takes a tensor that is not on the GPU")
    record: Callable[..., Any] = torch.cuda.make_graphed_callables
    try:
        module(*tensors)  # what it gives is noted by a call of its own, outside of the recording
        replay = record(module.forward, tensors)
    except RuntimeError as error:
        raise Unsuitable(f"its call cannot be recorded as a graph: {first_line(error)}") from error
    return lambda *row: [output.clone() for output in replay(*row)]


FIX = Fix(
    name="cuda-graphs",
    doc=__doc__,
    cures=("LCH001", "LCH002", "LCH003"),
    snippet="model = torch.cuda.make_graphed_callables(model, (example_inputs,))\n",
    changes_numbers="",
    rank=6,
    applies=_applies,
    treat=_treat,
    excludes=ENGINE,
)
