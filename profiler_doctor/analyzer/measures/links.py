"""Which host call put which work on a device."""

from __future__ import annotations

import re

import numpy as np

from profiler_doctor.analyzer.trace import GPU_WORK, HOST_CALLS, Bools, Column, Ints, Trace, measure

PUTS_WORK = re.compile(r"Launch|Memcpy|Memset|Enqueue", re.IGNORECASE)
"""Of several host calls with one correlation, the one that can have started work is the launch."""


@measure
def launch_of(trace: Trace) -> Column:
    """For all GPU work: the row of the host call that launched it, -1 where the launch is missing.

    Joined by correlation alone (a graph launch has one for all its kernels); a correlation of 0 links nothing. Where a
    correlation comes back (joined recordings, a counter that wrapped), the last call before the work's start is meant.
    """
    events = trace.events
    correlation = events.column("correlation")
    calls, work = _able(trace, trace.rows(*HOST_CALLS)), trace.rows(*GPU_WORK)
    if not len(calls) or not len(work):
        return Column(work.astype(np.int32), np.full(len(work), -1, np.int32))
    keys, wanted = correlation.at(calls, 0), correlation.at(work, 0)
    place = _last_before((keys, events.start_ns[calls]), (wanted, events.start_ns[work]))
    found = np.where((place >= 0) & (wanted > 0), calls[place], -1)
    return Column(work.astype(np.int32), found.astype(np.int32))


def _able(trace: Trace, calls: Ints) -> Ints:
    """The calls less those that cannot have started work although another one of the same correlation can."""
    able = trace.events.matching_names(PUTS_WORK.search)[trace.events.name[calls]]
    keys = trace.events.column("correlation").at(calls, 0)
    return calls[able | ~np.isin(keys, keys[able])]


def _last_before(calls: tuple[Ints, Ints], work: tuple[Ints, Ints]) -> Ints:
    """For each (key, time) of `work` the place of the last call with that key up to that time, else of the key's first.

    -1 where no call has the key.
    """
    once = _of_distinct(calls[0], work[0])
    if once is not None:
        return once
    every = np.concatenate((calls[0], work[0])), np.concatenate((calls[1], work[1]))
    is_work = np.arange(len(every[0])) >= len(calls[0])
    order = np.lexsort((is_work, every[1], every[0]))
    latest = np.maximum.accumulate(np.where(is_work[order], -1, np.arange(len(order))))
    place = np.empty(len(order), np.int64)
    place[order] = np.where(latest >= 0, order[latest], -1)
    place = place[len(calls[0]) :]
    by_key = np.lexsort((calls[1], calls[0]))
    first = by_key[np.minimum(np.searchsorted(calls[0][by_key], work[0]), len(by_key) - 1)]
    place = np.where((place >= 0) & (calls[0][place] == work[0]), place, first)
    return np.where(calls[0][place] == work[0], place, -1)


def _of_distinct(keys: Ints, wanted: Ints) -> Ints | None:
    """For each of `wanted` the place of that key, -1 for none; None where any key but 0 comes twice."""
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    if not len(keys) or np.any((in_order[1:] == in_order[:-1]) & (in_order[1:] > 0)):
        return None
    place = np.minimum(np.searchsorted(in_order, wanted), len(keys) - 1)
    return np.where(in_order[place] == wanted, order[place], -1)


def is_gpu_work(trace: Trace, rows: Ints) -> Bools:
    """For each of the event rows: whether it is a kernel, copy or memset that ran on a device."""
    events = trace.events
    on_device = np.array([name in GPU_WORK for name in events.categories] or [False], np.bool_)
    found: Bools = on_device[events.category[rows]] & (events.phase[rows] == ord("X"))
    return found
