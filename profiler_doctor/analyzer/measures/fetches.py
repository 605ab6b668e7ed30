"""The calls that fetch a batch from a data loader, and how much of the step the program waits in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.ops import ops, outermost_named
from profiler_doctor.analyzer.measures.share import host_share, profiler_ns_per_op, rows_in_window
from profiler_doctor.analyzer.measures.share import share as share_of
from profiler_doctor.analyzer.measures.totals import step_time
from profiler_doctor.analyzer.measures.window import linked_time, linked_work, used_steps
from profiler_doctor.analyzer.trace import Ints, Trace, measure

START_UP = 10
"""A fetch that takes so many times the median one waits for workers to start (RULES.md, DAT003)."""
WORKERS_START = "DataLoader: workers start"
"""The range that our capture puts around it."""


@dataclass(frozen=True, eq=False)
class Fetches:
    """All fetches of the judged window."""

    rows: Ints
    usual: Ints
    """Without those that wait for workers to start."""
    single_process: bool
    share: float
    """Of the device's time where it idles for the loader, else of the middle step, else of the window."""
    of: str
    """What it is a share of: `device`, `step` or `recorded window`."""

    @property
    def start_ups(self) -> Ints:
        """Those that wait for workers to start."""
        return np.setdiff1d(self.rows, self.usual)


@measure
def fetches(trace: Trace) -> Fetches:
    """The fetches, and the share that is exposed: waited for, without what recording the loader's small ops cost."""
    every = trace.rows_named(LOADER.search, ("user_annotation", "cpu_op"))
    rows = rows_in_window(trace, np.unique(outermost_named(trace, every, LOADER.search)))
    took = trace.events.dur_ns[rows]
    usual = rows[took < START_UP * np.median(took)] if len(rows) else rows
    single = bool(len(usual)) and "SingleProcess" in trace.events.name_of(int(usual[0]))
    whole = single or len(usual) == len(rows)
    share, of = _exposed(trace, rows, usual, _loading_shares(trace) if whole else [])
    return Fetches(rows, usual, single, share, of)


def ops_in(trace: Trace, rows: Ints) -> Ints:
    """For each row how many ops and annotations start inside it, on any thread."""
    starts = np.sort(ops(trace)["start_ns"].to_numpy())
    first = np.searchsorted(starts, trace.events.start_ns[rows], side="right")
    counts: Ints = np.searchsorted(starts, trace.events.ends_at(rows), side="left") - first
    return np.maximum(counts, 0)


def outer_ops_in(trace: Trace, rows: Ints) -> pd.DataFrame:
    """The ops right inside the rows: columns of `ops`."""
    table = ops(trace)
    found: pd.DataFrame = table[table["is_op"] & table["parent"].isin(rows)]
    return found


def stays(trace: Trace, rows: Ints, part: float) -> dict[int, float]:
    """Row → share that stays, so that `part` of a step is at stake: of what the fetches take of one nobody records.

    Where they took more of the recorded steps, some of them stays. Where they took less, recording made the other ops
    longer, and as much of those was never the program's own.
    """
    recorded, timed = share_of(trace, rows), trace.facts is not None and bool(trace.facts.step_ns)
    if not recorded or part <= recorded or not timed:
        return dict.fromkeys(rows.tolist(), max(1 - part / recorded, 0.0) if recorded else 0.0)
    others = (1 - part) / (1 - recorded)
    return dict.fromkeys(used_steps(trace)["row"].tolist(), others) | dict.fromkeys(rows.tolist(), 0.0)


def _exposed(trace: Trace, every: Ints, rows: Ints, loading: Sequence[float]) -> tuple[float, str]:
    if len(linked_work(trace)):
        return linked_time(trace).share("dataloader"), "device"
    if loading:
        return min(median(loading), 1.0), "step"
    marks, step = used_steps(trace), step_time(trace).median
    if not len(marks) or not step:
        return host_share(trace, every), "recorded window"
    at = np.searchsorted(marks["start_ns"].to_numpy(), trace.events.start_ns[rows], side="right") - 1
    recorded = 0.0 if _timed_ns(trace) else profiler_ns_per_op(trace)
    own = np.maximum(trace.events.dur_ns[rows] - recorded * ops_in(trace, rows), 0)
    own = np.full(len(rows), _timed_ns(trace)) if _timed_ns(trace) else own
    per_step = np.bincount(at[at >= 0], weights=own[at >= 0], minlength=len(marks))
    whole = np.full(len(marks), step) if _timed_ns(trace) or recorded else marks["dur_ns"].to_numpy()
    return float(min(np.median(per_step / whole), 1.0)), "step"


def _loading_shares(trace: Trace) -> list[float]:
    """Of each un-profiled step the share that it spent in loaders, as our capture timed it; empty where it did not.

    Step by step, because another program that has the CPU meanwhile lengthens both. Waits for workers to start count.
    """
    facts = trace.facts
    if facts is None or len(facts.step_loading_ns) != len(facts.step_ns):
        return []
    return [loading / step for loading, step in zip(facts.step_loading_ns, facts.step_ns, strict=True) if step]


def _timed_ns(trace: Trace) -> int:
    """Un-profiled time of one fetch, as our capture timed it while it timed steps; 0 where it did not, or of several.

    A loader that was not iterated over while steps were timed, such as one for validation, has no time.
    """
    facts = trace.facts
    if facts is None or not facts.step_ns:
        return 0
    timed = [loader.fetch_ns for loader in facts.loaders if loader.fetch_ns]
    return timed[0] if len(timed) == 1 else 0
