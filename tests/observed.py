"""A trace as our own capture would hand it over: with the facts that it saw beside the recording."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from profiler_doctor.analyzer.facts import Facts, RootFacts
from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.trace import Trace


def observed(trace: Trace, **facts: Any) -> Trace:
    """The trace with these facts."""
    return replace(trace, facts=Facts(**facts), has=trace.has | {Has.CAPTURE}, cache={})


def root(name: str = "Net", **more: Any) -> RootFacts:
    """An outermost module in evaluation mode under no_grad, called 100 times, unless told otherwise."""
    usual: dict[str, Any] = {
        "calls": 100,
        "training": False,
        "grad_enabled": False,
        "output_requires_grad": False,
        "autocast": None,
        "parameter_bytes": 4_000,
        "parameter_dtypes": ("float32",),
        "input_ranks": (2,),
        "signatures": ("4x32",),
        "compiled": False,
    }
    return RootFacts(name=name, **(usual | more))


def arguments(*operands: tuple[list[int], str] | str | int | bool, strides: list[list[int]] | None = None) -> Any:
    """An op's arguments in kineto's words: a tensor is (shape, type), everything else a value written as text."""
    shapes = [operand[0] if isinstance(operand, tuple) else [] for operand in operands]
    types = [operand[1] if isinstance(operand, tuple) else "Scalar" for operand in operands]
    values = ["" if isinstance(operand, tuple) else str(operand) for operand in operands]
    layout = strides or [contiguous(shape) for shape in shapes]
    layout += [[]] * (len(shapes) - len(layout))
    return {"Input Dims": shapes, "Input type": types, "Concrete Inputs": values, "Input Strides": layout}


def contiguous(shape: list[int]) -> list[int]:
    """Strides of a tensor whose last dimension lies side by side."""
    return [prod(shape[place + 1 :]) for place in range(len(shape))]
