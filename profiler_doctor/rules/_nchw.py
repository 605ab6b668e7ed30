"""What the rules on convolutions in NCHW order share: which calls are dense and so ordered, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler_doctor.analyzer.measures.convolutions import Convolution, convolutions, is_nchw, is_nhwc
from profiler_doctor.analyzer.measures.share import rows_in_window, share
from profiler_doctor.analyzer.trace import Trace


@dataclass(frozen=True)
class InNchw:
    """Such convolutions of the window: the rows of all, their share of the work, and those of the forward pass."""

    rows: tuple[int, ...]
    share: float
    forward: tuple[Convolution, ...]

    @classmethod
    def among(cls, trace: Trace, wanted: Sequence[Convolution]) -> InNchw:
        """Those of `wanted` that lie in the window."""
        rows = rows_in_window(trace, [call.row for call in wanted]).tolist()
        inside = set(rows)
        forward = tuple(call for call in wanted if call.forward and call.row in inside)
        return cls(tuple(rows), share(trace, rows), forward)

    def told(self, example: Convolution) -> dict[str, object]:
        """The evidence of a finding, with one call as its example."""
        return {
            "convolutions": len(self.rows),
            "share": self.share,
            "input": list(example.input.dims),
            "strides": list(example.input.strides or ()),
            "weight": list(example.weight.dims),
            "type": example.input.type,
        }


def dense_in_nchw(trace: Trace, channels: float) -> list[Convolution]:
    """Calls without groups, of at least so many channels, whose input lies in NCHW order and weight follows it."""
    return [
        call
        for call in convolutions(trace)
        if call.groups == 1
        and not call.transposed
        and call.channels >= channels
        and is_nchw(call.input)
        and not is_nhwc(call.weight)
    ]
