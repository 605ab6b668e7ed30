"""One side of a check: a program run in fresh processes until its counters are known, with the circumstances."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import profiler_doctor
from profiler_doctor.analyzer.capture import processors
from profiler_doctor.analyzer.capture.counted import Recording, Request, recording, same_again
from profiler_doctor.analyzer.counters import Counters, agreed, counters
from profiler_doctor.analyzer.engine import Selection
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace

ISAS = ("amx_bf16", "avx512f", "avx2", "avx", "sve", "asimd")
"""Instruction sets by which the CPU's library chooses its ops, the best first."""
WORK_ROUNDS = 7
WORK_SIZE = 200_000


@dataclass(frozen=True, eq=False)
class Measured:
    """What is known of one side so far."""

    request: Request
    folder: Path
    rules: Found[Rule]
    selection: Selection
    recording: Recording
    trace: Trace
    counters: Counters
    times_ns: tuple[int, ...] = ()
    """The median un-profiled step of each process, on the wall clock."""
    cpu_ns: tuple[int, ...] = ()
    """The same on the CPU clock."""
    processes: int = 1

    def confirmed(self) -> Measured:
        """With one fresh process more: what the processes do not agree on is no counter any more."""
        number = self.processes + 1
        self.request.say(f"counting once more, in a fresh process ({number})")
        again = same_again(self.request, self.recording, self.folder / f"again{number}")
        trace = _read(again)
        more = counters(again, trace, self.rules, self.selection)
        return replace(
            self,
            counters=agreed(self.counters, more),
            times_ns=(*self.times_ns, *_median(again.facts.step_ns)),
            cpu_ns=(*self.cpu_ns, *_median(again.facts.step_cpu_ns)),
            processes=number,
        )

    @property
    def circumstances(self) -> Mapping[str, object]:
        """What counters and times depend on beside the program."""
        facts = self.recording.facts
        return {
            "profiler_doctor": profiler_doctor.__version__,
            "torch": facts.torch,
            "device": facts.device,
            "devices": sorted({device.name for device in self.trace.devices if device.name}),
            "isa": next((name for name in ISAS if name in facts.cpu_flags), ""),
            "threads": facts.threads,
            "cpu": processors.cpu_model(),
            "usable_cpus": processors.usable_cpus(),
            "system": f"{platform.system()} {platform.machine()}",
        }


def measured(request: Request, folder: Path, rules: Found[Rule], selection: Selection) -> Measured:
    """Run the program and count. A program without steps is run twice: each run of it is one window."""
    made = recording(request, folder)
    trace = _read(made)
    found = Measured(
        request=request,
        folder=folder,
        rules=rules,
        selection=selection,
        recording=made,
        trace=trace,
        counters=counters(made, trace, rules, selection),
        times_ns=_median(made.facts.step_ns),
        cpu_ns=_median(made.facts.step_cpu_ns),
    )
    return found if made.source is not None else found.confirmed()


def machine_ns() -> int:
    """How long a fixed piece of work takes here and now (the median of several, ns): is the machine as it was?"""
    table = np.arange(WORK_SIZE, dtype=np.float64)
    times = []
    for _ in range(WORK_ROUNDS):
        begun = time.perf_counter_ns()
        np.sort(table[::-1] * 1.5).sum()
        sum(number * number for number in range(WORK_SIZE // 4))
        times.append(time.perf_counter_ns() - begun)
    return sorted(times)[WORK_ROUNDS // 2]


def _read(made: Recording) -> Trace:
    return read(made.trace).with_capture(made.facts, None)


def _median(times: tuple[int, ...]) -> tuple[int, ...]:
    return (int(np.percentile(times, 50, method="nearest")),) if times else ()
