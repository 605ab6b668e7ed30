"""What torch says of itself where the user's programs would run: `python -m` this, one line of JSON.

In a process of its own, as everything that imports torch.
"""

from __future__ import annotations

import itertools
import json
import sys
import time

TICKS = 1000


def told() -> dict[str, object]:
    """Versions, devices, profiler activities, threads; `error` where torch cannot be imported. `tick_ns`: the clock."""
    found: dict[str, object] = {"python": sys.version.split()[0], "tick_ns": _tick_ns(), "traced": _traced()}
    try:
        import torch
    except Exception as error:  # a broken installation raises whatever it likes
        return {**found, "error": f"{type(error).__name__}: {error}"}
    activities = sorted(activity.name for activity in torch.profiler.supported_activities())  # type: ignore[no-untyped-call]  # torch's own gap
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        **found,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "devices": devices,
        "activities": activities,
        "threads": torch.get_num_threads(),
        "anomaly": torch.is_anomaly_enabled(),
    }


def _tick_ns() -> int:
    """The smallest difference between two readings of the clock that steps are timed with."""
    readings = [time.perf_counter_ns() for _ in range(TICKS)]
    apart = (later - earlier for earlier, later in itertools.pairwise(readings))
    return min((ticks for ticks in apart if ticks > 0), default=0)


def _traced() -> bool:
    """Whether a debugger or a coverage tool follows every line of Python."""
    return sys.gettrace() is not None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(told()) + "\n")
