"""Which host call put which work on a device."""

from __future__ import annotations

import re

import numpy as np

from profiler_doctor.analyzer.trace import GPU_WORK, HOST_CALLS, Bools, Ints, Trace, measure

PUTS_WORK = re.compile(r"Launch|Memcpy|Memset|Enqueue", re.IGNORECASE)
"""Of several host calls with one correlation, the one that can have started work is the launch."""


@measure
def launch_of(trace: Trace) -> Ints:
    """For every event row: the row of the host call that launched it, -1 if it is no GPU work or the launch is missing.

    Joined by correlation alone (a graph launch has one for all its kernels); a correlation of 0 links nothing.
    """
    events = trace.events
    found = np.full(len(events), -1)
    correlation = events.column("correlation")
    calls = trace.rows(*HOST_CALLS)
    keys = correlation.at(calls, 0)
    able = events.matching_names(PUTS_WORK.search)[events.name[calls]]
    order = np.lexsort((~able, keys))
    calls, keys = calls[order], keys[order]
    work = trace.rows(*GPU_WORK)
    wanted = correlation.at(work, 0)
    if len(calls) and len(work):
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found[work] = np.where((keys[place] == wanted) & (wanted > 0), calls[place], -1)
    return found


@measure
def is_gpu_work(trace: Trace) -> Bools:
    """For every event row: whether it is a kernel, copy or memset that ran on a device."""
    mask = np.zeros(len(trace.events), np.bool_)
    mask[trace.rows(*GPU_WORK)] = True
    return mask
