"""Tensors' identities for a trace that is built by hand: what each op was given and made, op by op."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from profiler_doctor.analyzer.facts import Facts, TensorFacts
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder


@dataclass
class Told:
    """By the op's start: the storages of the tensors it was given (each holds one tensor), and those it made."""

    calls: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def op(self, start_ns: int, given: tuple[int, ...] = (), made: tuple[int, ...] = ()) -> None:
        """One op."""
        self.calls[start_ns] = (given, made)

    def trace(self, folder: Path, built: TraceBuilder) -> Trace:
        """The trace with itself as the recording with stacks."""
        trace, starts = built.trace(folder), sorted(self.calls)
        storages = range(1 + max((one for pair in self.calls.values() for one in (*pair[0], *pair[1])), default=0))
        told = TensorFacts(
            starts=tuple(start + trace.base_ns for start in starts),
            given=tuple(self.calls[start][0] for start in starts),
            made=tuple(self.calls[start][1] for start in starts),
            storages=tuple(storages),
            sizes=(8,) * len(storages),
        )
        return trace.with_capture(Facts(tensors=told), trace)
