"""The GPU seems idle although work is queued: something ran that the trace does not hold.

What it finds
    Gaps of a device longer than 500 µs in which at least two pieces of work that had already been launched wait for
    300 µs or more, and nothing recorded runs.

Why it costs
    It does not, but the idle time is not what it seems: the device was working on something unrecorded (an earlier
    step, another process), was loading code, or the trace was cut or thinned out.

What to do
    Record again with nothing else on the device, synchronize before the recording starts, and let the profiler record
    all kernels.

When not to
    A device that waits for another rank or for a host callback shows the same gaps. Then the idle time is real, but its
    cause is not in this trace either.

Source
    RULES.md, MSR003. Where such gaps are 5 % of the device's span or more, findings that rest on idle or waiting time
    (LCH, FUS, SYN) are not believed.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import busy
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.stalls import stalls
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One note for the trace."""
    table = stalls(trace, int(limits["gap_us"] * 1000), int(limits["wait_us"] * 1000))
    table = table[table["waiting"] >= limits["waiting"]]
    if not len(table):
        return
    time, span = int(table["dur_ns"].sum()), int(busy(trace)["span_ns"].sum())
    yield Sighting(
        message=f"For {time / 1e6:.3g} ms ({time / span:.1%} of the GPU's span) work was queued and nothing recorded "
        "ran: idle times are not to be believed.",
        evidence={
            "events": len(table),
            "stalled_ns": time,
            "stalled_share": round(time / span, 6),
            "waiting": int(table["waiting"].max()),
        },
        intervals_ns=places(table),
        grave=time >= limits["grave_share"] * span,
    )


RULE = Rule(
    code="MSR003",
    name="idle-while-work-queued",
    doc=__doc__,
    find=find,
    needs=(Has.LAUNCHES,),
    thresholds={
        "gap_us": Threshold(500, "µs", "launch latency and scheduling end well below (RULES.md)"),
        "wait_us": Threshold(300, "µs", "twenty times a usual launch latency"),
        "waiting": Threshold(2, "pieces of work", "a single one may wait for something of its own"),
        "grave_share": Threshold(0.05, "share of the device's span", "half of what LCH001 needs to speak"),
    },
    vetoes=("LCH", "FUS", "SYN"),
)
