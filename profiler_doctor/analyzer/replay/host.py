"""The host's side of a window: runtime calls in order, what each one follows, and which can wait for the GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.names import distinct
from profiler_doctor.analyzer.measures.window import Window
from profiler_doctor.analyzer.trace import HOST_CALLS, Bools, Codes, Ints, Trace

HANDED_OVER_CALLS = 3
"""So many calls of other threads between two of one thread's mean that it waited for them, as in `loss.backward()`."""
END_MARK = -1
"""The row of the call that stands for the end of the last step."""
_EVERY_STREAM = re.compile(r"(?:Device|Ctx)Synchronize$|^(?:cuda|hip)Free(?:Host|Array)?$|^cuMemFree(?:Host)?(?:_v2)?$")
_FREES = re.compile(r"Free")


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of a window in order of their start, times from the window's start. Calls inside calls are left out.

    `row` is END_MARK for the end of the last step. `after` is the place of the call that each one follows (-1: the
    window's start), on its own thread or on the thread that handed over to it. `waits`: it can wait for the GPU;
    `everywhere`: for all streams, as a device synchronization does; `frees`: it may also just take long by itself.
    `joins`: a stream was told to wait for another one between this thread's previous call and this one.
    """

    row: Codes
    thread: Codes
    start_ns: Ints
    end_ns: Ints
    after: Codes
    waits: Bools
    everywhere: Bools
    frees: Bools
    joins: Bools

    @property
    def dur_ns(self) -> Ints:
        """Recorded durations."""
        return self.end_ns - self.start_ns

    @property
    def think_ns(self) -> Ints:
        """Host time between the end of the call that each one follows and its own start."""
        return self.start_ns - self.free_from_ns

    @property
    def free_from_ns(self) -> Ints:
        """When the call that each one follows ended; 0 for the window's start."""
        return np.append(self.end_ns, 0)[self.after]


def calls_in(trace: Trace, window: Window) -> Calls:
    """The calls that `window` holds. Those that neither launch, copy, allocate nor wait count as thinking."""
    table = _table(trace, window)
    row, thread = table["row"].to_numpy(np.int64), table["thread"].to_numpy(np.int64)
    start, end = (table[name].to_numpy(np.int64) - window.start_ns for name in ("start_ns", "end_ns"))
    everywhere = _named(trace, row, _EVERY_STREAM)
    frees = everywhere & _named(trace, row, _FREES)
    return Calls(
        row=row.astype(np.int32),
        thread=thread.astype(np.int32),
        start_ns=start,
        end_ns=end,
        after=_followed(thread, start, end).astype(np.int32),
        waits=table["waits"].to_numpy(np.bool_) | frees,
        everywhere=everywhere,
        frees=frees,
        joins=_joins(trace, window, thread, start),
    )


def _table(trace: Trace, window: Window) -> pd.DataFrame:
    calls, moved = host_calls(trace), copies(trace)
    start = calls["start_ns"].to_numpy()
    does = ((calls["kind"] != "other") | (calls["work"] > 0)).to_numpy()
    chosen = np.flatnonzero((start >= window.start_ns) & (start < window.end_ns) & does)
    blocking = (calls["kind"] == "blocking").to_numpy()[chosen]
    table = calls[["row", "thread", "start_ns", "end_ns"]].iloc[chosen]
    staged = table["row"].isin(moved.loc[moved["pageable"], "launch"])
    table = table.assign(waits=blocking | staged)[_outermost(table)]
    if not window.steps:
        return table
    mark = {"row": END_MARK, "thread": window.thread, "start_ns": window.end_ns, "end_ns": window.end_ns}
    last = pd.DataFrame([{**mark, "waits": False}])
    return pd.concat([table[last.columns], last], ignore_index=True)


def _named(trace: Trace, rows: Ints, pattern: re.Pattern[str]) -> Bools:
    """Whether the pattern is in each row's name; END_MARK has none."""
    there: Bools = trace.events.matching_names(pattern.search)[trace.events.name[rows]]
    there[rows == END_MARK] = False
    return there


def _outermost(table: pd.DataFrame) -> Bools:
    """Which calls do not start inside an earlier call of their thread (a runtime call may call the driver)."""
    thread, start, end = (table[name].to_numpy() for name in ("thread", "start_ns", "end_ns"))
    outermost = np.ones(len(table), np.bool_)
    for own in distinct(thread):
        mine = np.flatnonzero(thread == own)
        outermost[mine[1:]] = start[mine[1:]] >= np.maximum.accumulate(end[mine])[:-1]
    return outermost


def _followed(thread: Ints, start: Ints, end: Ints) -> Ints:
    """For each call the place of the one it follows; see HANDED_OVER_CALLS."""
    after = np.full(len(thread), -1, dtype=np.int64)
    for own in distinct(thread):
        mine = np.flatnonzero(thread == own)
        after[mine[1:]] = mine[:-1]
    place = np.arange(len(thread))
    could = np.append(False, end[:-1] <= start[1:])  # the call before has ended
    return np.where(could & ((after < 0) | (place - after > HANDED_OVER_CALLS)), place - 1, after)


def _joins(trace: Trace, window: Window, thread: Ints, start: Ints) -> Bools:
    rows = trace.rows_named(lambda name: "StreamWaitEvent" in name, HOST_CALLS)
    told, told_thread = trace.events.start_ns[rows] - window.start_ns, trace.events.thread[rows]
    joins = np.zeros(len(thread), dtype=np.bool_)
    for own in np.unique(told_thread):
        places = np.flatnonzero(thread == own)
        following = np.searchsorted(start[places], told[told_thread == own])
        joins[places[following[following < len(places)]]] = True
    return joins
