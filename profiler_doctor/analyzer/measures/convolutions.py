"""The convolutions of a trace, forward and backward, with what they were called with."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.operands import Operand, operands
from profiler_doctor.analyzer.measures.ops import outermost_named
from profiler_doctor.analyzer.trace import Trace, measure

FORWARD = re.compile(r"^aten::(?:conv[123]d|conv_transpose[123]d|_?convolution|\w+_convolution(?:_transpose)?)$")
BACKWARD = re.compile(r"^aten::(?:\w+_)?convolution(?:_\w+)?_backward$")
TRANSPOSED = re.compile(r"transpose")


@dataclass(frozen=True)
class Convolution:
    """One call; `row` is the outermost op of it."""

    row: int
    input: Operand
    weight: Operand
    forward: bool
    transposed: bool

    @property
    def groups(self) -> int:
        """1 for a dense one. Told from the shapes: a weight sees its own group's channels alone."""
        if self.transposed or not self.weight.dims[1]:
            return 1
        return self.input.dims[-len(self.weight.dims) + 1] // self.weight.dims[1]

    @property
    def channels(self) -> int:
        """The smaller one of its channels in and out."""
        return min(self.input.dims[-len(self.weight.dims) + 1], self.weight.dims[0])


@measure
def convolutions(trace: Trace) -> tuple[Convolution, ...]:
    """All convolutions whose shapes are in the trace, in file order."""
    found = []
    for test, forward in ((FORWARD, True), (BACKWARD, False)):
        rows = trace.rows_named(test.search, ("cpu_op",))
        for row in np.unique(outermost_named(trace, rows, test.search)).tolist():
            arguments = operands(trace, row)[0 if forward else 1 :]
            if len(arguments) >= 2 and 3 <= len(arguments[1].dims) <= len(arguments[0].dims) + 1:
                transposed = bool(TRANSPOSED.search(trace.events.name_of(row))) or _says_transposed(arguments)
                found.append(Convolution(row, arguments[0], arguments[1], forward, transposed))
    return tuple(sorted(found, key=lambda convolution: convolution.row))


def _says_transposed(arguments: tuple[Operand, ...]) -> bool:
    """The first flag among the arguments of aten::convolution and of its backward is `transposed`."""
    return next((operand.value == "True" for operand in arguments if operand.value in ("True", "False")), False)


def is_nchw(operand: Operand) -> bool:
    """Whether a 4-D tensor lies in memory channel by channel, and not so that it is both layouts at once."""
    if len(operand.dims) != 4 or operand.strides is None:
        return False
    _, channels, height, width = operand.dims
    told_apart = channels > 1 and height * width > 1
    return told_apart and operand.strides[1:] == (height * width, width, 1)


def is_nhwc(operand: Operand) -> bool:
    """Whether a 4-D tensor lies in memory with its channels side by side, and not so that it is both at once."""
    if len(operand.dims) != 4 or operand.strides is None:
        return False
    _, channels, height, width = operand.dims
    told_apart = channels > 1 and height * width > 1
    return told_apart and operand.strides[1:] == (1, width * channels, channels)
