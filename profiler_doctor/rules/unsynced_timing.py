"""The program's own timing measures something else than it seems to.

What it finds
    Two readings of a clock in the user's own code between which GPU work was launched that had not ended at the second
    one, with nothing between them that waits (from a recording with Python stacks). In the source, where our own
    capture watched the run: a loop that is timed from its first turn on, though nothing in it was called before; the
    first step, with its allocations, library loading and compiling, is part of such a number.

Why it costs
    It does not, but the numbers mislead: launching takes microseconds while the GPU works for milliseconds, and a first
    step can take as long as hundreds of later ones.

What to do
    `torch.cuda.synchronize()` before each reading, or CUDA events, or `torch.utils.benchmark.Timer`, which does both.
    Call the model a few times with every shape before the clock is started.

When not to
    Where the time to launch, or the time to a first answer, is what you want to know. A loop that trains is not judged,
    nor one so long that its first step does not count.

Source
    RULES.md, MSR006; PyTorch's benchmark recipe ("asynchronous CUDA calls", "warm-up").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.hidden import own_files
from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.timers import TimedPart, clock_pairs, timed_parts
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

MOST_BYTES = 1 << 20


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """A note for each function that times launches alone, and one for each loop that is timed cold."""
    recorded = trace if trace.stacks is None or len(trace.rows("python_function")) else trace.stacks
    yield from _launches_alone(recorded, limits["pending_us"] * 1000)
    if trace.facts is not None:
        yield from _timed_cold(trace, trace.facts, limits)


def _launches_alone(trace: Trace, pending_ns: float) -> Iterator[Sighting]:
    pairs = clock_pairs(trace)
    if not len(pairs):
        return
    pairs = pairs.assign(pending_ns=_pending_ns(trace, pairs))
    late = pairs[pairs["pending_ns"] > pending_ns]
    for (file, line), own in late.groupby([late["file"].astype(str), late["line"].astype(int)], sort=True):
        place = Where(file=str(file), line=int(str(line)))
        took, left = int((own["end_ns"] - own["start_ns"]).median()), int(own["pending_ns"].median())
        yield Sighting(
            message=f"{Path(str(file)).name}:{line} reads the clock after {took / 1000:.3g} µs of launching, and the "
            f"GPU goes on for {left / 1000:.3g} µs: nothing waits for it before the second reading.",
            where=place,
            evidence={"events": len(own), "read_ns": took, "pending_ns": left},
            intervals_ns=places(own),
            grave=False,
        )


def _pending_ns(trace: Trace, pairs: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How long the work that was launched between the readings still runs after the second; 0 where something waits."""
    work, calls = gpu_work(trace), host_calls(trace)
    work = work[work["launch"] >= 0].sort_values("launch_start_ns")
    launched, ends = work["launch_start_ns"].to_numpy(), np.maximum.accumulate(work["end_ns"].to_numpy(np.int64))
    waits = np.sort(calls.loc[calls["kind"] == "blocking", "end_ns"].to_numpy())
    start, end = pairs["start_ns"].to_numpy(), pairs["end_ns"].to_numpy()
    first, after = np.searchsorted(launched, start), np.searchsorted(launched, end)
    some = after > first
    last = np.maximum(after - 1, 0)
    waited = np.searchsorted(waits, end, side="right") > np.searchsorted(waits, launched[last] if len(work) else end)
    return np.where(some & ~waited, np.maximum((ends[last] if len(work) else end) - end, 0), 0)


def _timed_cold(trace: Trace, facts: Facts, limits: Limits) -> Iterator[Sighting]:
    """Only of a program that does not train: who times a training means all of it."""
    cold, warm = facts.cold_step_ns, facts.step_ns
    if not cold or not warm or facts.optimizer_steps or facts.backward_calls:
        return
    if cold < limits["cold_ratio"] * median(warm) or cold < limits["cold_share"] * sum(warm):
        return
    times = cold / median(warm)
    with_compiling = ", with compiling" if facts.compiles.compilations else ""
    for file in own_files(trace):
        for part in _cold_parts(Path(facts.source_folder, file)):
            yield Sighting(
                message=f"{Path(file).name}:{part.line} times a loop from its first turn on: the first step takes "
                f"{times:.3g} times as long as the later ones{with_compiling}, and nothing warms up before.",
                where=Where(file=file, line=part.line),
                evidence={"events": 1, "cold_ns": cold, "cold_ratio": round(times, 3)},
                grave=False,
            )


def _cold_parts(path: Path) -> Iterator[TimedPart]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= MOST_BYTES else ""
    except (OSError, ValueError):
        return
    yield from (part for part in timed_parts(text) if part.loops and not part.warm)


RULE = Rule(
    code="MSR006",
    name="unsynced-timing",
    doc=__doc__,
    find=find,
    needs=(Has.STACKS,),
    thresholds={
        "pending_us": Threshold(10, "µs", "the length of one small kernel that may end just after the reading"),
        "cold_share": Threshold(0.05, "of the steps' time", "what a benchmark should be able to tell apart"),
        "cold_ratio": Threshold(1.5, "times the median step", "RULES.md; steady steps vary less"),
    },
)
