"""What a finished set of columns holds, and what it plainly should hold and does not."""

from __future__ import annotations

from collections import Counter

import numpy as np

from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import GPU_WORK, HOST_CALLS, Bools, Events, Ints

KNOWN = frozenset(
    {
        "", "cpu_op", "user_annotation", "gpu_user_annotation", "python_function", "cpu_instant_event",
        "overhead", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync",
        "cuda_event", "ac2g", "fwdbwd", "external_correlation", "collective_comm", "Trace", "xpu_runtime",
        "xpu_driver", "xpu_sync", "xpu_scope_profiler", "mtia_runtime", "mtia_ccp_events", "mtia_insight",
        "mtia_counters", "privateuse1_runtime", "privateuse1_driver", "hpu_op", "glow_runtime",
        "cuda_profiler_range", "hardware_counters",
    }
)  # fmt: skip
"""Today's categories (kineto's ActivityType.h), flows and spans. Others are kept and counted."""
FAR_NS = 86_400_000_000_000
"""A day: no recording is that long."""
LAUNCHES = ("Launch", "Memcpy", "Memset")
OTHER_DEVICE_WORK = ("mtia_ccp_events",)
SHOW_A_GPU = ("cuda_sync", "cuda_event", "cuda_profiler_range", "gpu_user_annotation")
ASK_FOR_COUNTERS = (
    "Nothing can be said of the GPU's busy or idle time. If it was used, check that the profiler may read it: CUPTI or "
    "roctracer installed, permission given, no other profiler attached."
)


def what_it_holds(events: Events) -> frozenset[Has]:
    """The kinds of facts a rule can ask for, told from the columns."""
    gpu = _complete(events, GPU_WORK)
    ops = _complete(events, ("cpu_op",))
    found = {
        Has.STEPS: _any_name(events, ("user_annotation", "cpu_op"), "ProfilerStep#"),
        Has.OPS: bool(len(ops)),
        Has.KERNELS: bool(len(_complete(events, ("kernel",)))),
        Has.LAUNCHES: _linked(events, gpu),
        Has.SHAPES: _filled(events, "Input Dims", ops),
        Has.STRIDES: _filled(events, "Input Strides", ops),
        Has.STACKS: bool(len(_complete(events, ("python_function",)))),
        Has.MEMORY: bool(len(events.column("Bytes").rows)),
        Has.COLLECTIVES: len(events.text("Collective name").rows) > 0 or _any_name(events, GPU_WORK, "nccl", "rccl"),
        Has.CPU_ONLY: not any(map(len, (gpu, _launches(events), _complete(events, SHOW_A_GPU)))),
    }
    return frozenset(kind for kind, there in found.items() if there)


def missing_gpu_work(events: Events) -> tuple[HealthNote, ...]:
    """A note where the host spoke to a device and nothing that the device did was recorded."""
    calls = _complete(events, HOST_CALLS)
    signs = len(calls) + len(_complete(events, SHOW_A_GPU))
    if not signs or len(_complete(events, (*GPU_WORK, *OTHER_DEVICE_WORK))):
        return ()
    launches = len(_launches(events))
    made = f"The host made {len(calls)} calls to a GPU's runtime, {launches} of them launches, copies or memsets"
    if launches or signs > len(calls):
        said = f"{made}, but no GPU activity was recorded. {ASK_FOR_COUNTERS}"
    else:
        said = f"{made}: it kept to the CPU, or no GPU activity was recorded. {ASK_FOR_COUNTERS}"
    return (HealthNote(code="GPU-NOT-RECORDED", message=said, events=signs),)


def _launches(events: Events) -> Ints:
    """Host calls that put work on a device."""
    calls = _complete(events, HOST_CALLS)
    names = events.matching_names(lambda name: any(mark in name for mark in LAUNCHES))
    return calls[names[events.name[calls]]]


def left_out(events: Events, trouble: Counter[str]) -> Events:
    """The same events, those without a believable time taken out of every measure; counts into `trouble`.

    Some versions wrote thousands of events at time 0 without a duration, ROCm a kernel from before the program began:
    more than a day away from the others. Their phase becomes 0, so they are neither complete events nor anything else;
    their rows stay.
    """
    complete = events.phase == ord("X")
    nowhere = complete & (events.start_ns == 0) & (events.dur_ns <= 0)
    timed = events.start_ns[complete & ~nowhere]
    if len(timed) and (nowhere.any() or timed.max() - timed.min() > FAR_NS):
        middle = np.partition(timed, len(timed) // 2)[len(timed) // 2]
        far = complete & (np.abs(events.start_ns - middle) > FAR_NS)
        trouble["far"] += int(far.sum())
        events.phase[far] = 0
    known = np.array([name in KNOWN for name in events.categories], np.bool_)
    trouble["unknown"] += int(np.count_nonzero(~known[events.category])) if len(events) else 0
    return events


def _complete(events: Events, categories: tuple[str, ...]) -> Ints:
    return np.flatnonzero(_of(events, categories) & (events.phase == ord("X")))


def _of(events: Events, categories: tuple[str, ...]) -> Bools:
    wanted: Bools = np.array([name in categories for name in events.categories] or [False], np.bool_)
    return wanted[events.category]


def _any_name(events: Events, categories: tuple[str, ...], *starts: str) -> bool:
    names = events.matching_names(lambda name: name.startswith(starts))
    return bool(np.any(names[events.name[_complete(events, categories)]]))


def _filled(events: Events, argument: str, rows: Ints) -> bool:
    column = events.text(argument)
    filled = np.array([any(mark.isdigit() for mark in text) for text in column.table or ()], np.bool_)
    codes = column.at(rows, -1)
    return bool(len(filled) and np.any(filled[codes[codes >= 0]]))


def _linked(events: Events, gpu: Ints) -> bool:
    correlation = events.column("correlation")
    on_gpu = correlation.at(gpu, 0)
    on_host = correlation.at(_complete(events, HOST_CALLS), 0)
    return bool(np.any(np.isin(on_gpu[on_gpu > 0], on_host)))
