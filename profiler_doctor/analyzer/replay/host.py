"""The host's side of a window: runtime calls in order, what each one follows, and which can wait for the GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.host import host_calls
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
        return np.where(self.after >= 0, np.append(self.end_ns, 0)[self.after], 0)


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
    calls = host_calls(trace)
    moved = copies(trace)
    chosen = (calls["start_ns"] >= window.start_ns) & (calls["start_ns"] < window.end_ns)
    table = calls[chosen & ((calls["kind"] != "other") | (calls["work"] > 0))].sort_values("start_ns", kind="stable")
    staged = table["row"].isin(moved.loc[moved["pageable"], "launch"])
    table = table.assign(waits=(table["kind"] == "blocking") | staged)
    table = table[_outermost(table)]
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
    earlier = table.groupby("thread")["end_ns"].cummax().groupby(table["thread"]).shift(1)
    return (earlier.isna() | (table["start_ns"] >= earlier)).to_numpy(np.bool_)


def _followed(thread: Ints, start: Ints, end: Ints) -> Ints:
    """For each call the place of the one it follows; see HANDED_OVER_CALLS."""
    last: dict[int, int] = {}
    after = np.full(len(thread), -1, dtype=np.int64)
    free = np.append(True, end[:-1] <= start[1:]).tolist()  # the call before has ended
    for place, own_thread in enumerate(thread.tolist()):
        own = last.get(own_thread, -1)
        could = place > 0 and free[place]
        handed_over = could and (own_thread not in last or place - own > HANDED_OVER_CALLS)
        after[place] = place - 1 if handed_over else own
        last[own_thread] = place
    return after


def _joins(trace: Trace, window: Window, thread: Ints, start: Ints) -> Bools:
    rows = trace.rows_named(lambda name: "StreamWaitEvent" in name, HOST_CALLS)
    told, told_thread = trace.events.start_ns[rows] - window.start_ns, trace.events.thread[rows]
    joins = np.zeros(len(thread), dtype=np.bool_)
    for own in np.unique(told_thread):
        places = np.flatnonzero(thread == own)
        following = np.searchsorted(start[places], told[told_thread == own])
        joins[places[following[following < len(places)]]] = True
    return joins
