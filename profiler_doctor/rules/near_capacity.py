"""The GPU's memory is nearly full, or much of what is held lies idle.

What it finds
    The allocator holds more than 90 % of the device's memory; or it holds more than half of it, and more than one and a
    half times what was ever in use at once: fragments too small for what is asked.

Why it costs
    When a request does not fit, the allocator gives all idle blocks back to the driver and asks again, which waits for
    the device each time; after that comes the out-of-memory error. Fragments take the place of a larger batch.

What to do
    `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` against fragments; activation checkpointing, a smaller batch or
    8-bit optimizer states against a full device.

When not to
    A program that fits, with constant shapes, may run at 95 % for ever: a full memory is not slow by itself. Serving
    engines reserve nearly everything on purpose.

Source
    RULES.md, MEM002. At stake is the time of frees and allocations in the judged steps, if there are any; else it is a
    finding about memory, and no time is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.memory import memory_peaks
from profiler_doctor.analyzer.measures.ops import named
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

FREES = named(r"Free")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding for each device."""
    capacity = {str(device.id): device.memory_bytes for device in trace.devices if device.memory_bytes}
    retries = _retries(trace)
    for peak in memory_peaks(trace).to_dict("records"):
        kind, _, number = str(peak["device"]).partition(":")
        total, held, used = capacity.get(number), int(peak["peak_reserved_bytes"]), int(peak["peak_bytes"])
        if kind == "cpu" or not total or held <= 0:
            continue
        full, ratio = held / total, held / used if used else 0.0
        fragmented = full > limits["fragmented_from"] and ratio > limits["held_over_used"]
        if full <= limits["full_share"] and not fragmented:
            continue
        at = int(peak["peak_time_ns"])
        yield Sighting(
            message=f"The allocator holds {held / 1e9:.3g} of {peak['device']}'s {total / 1e9:.3g} GB ({full:.0%}), of "
            f"which at most {used / 1e9:.3g} GB were in use at once.",
            where=Where(op=str(peak["peak_op"]) or str(peak["device"])),
            evidence={
                "reserved_bytes": held,
                "peak_bytes": used,
                "capacity_bytes": total,
                "full_share": round(full, 6),
                "held_over_used": round(ratio, 6),
                "retries": len(retries),
            },
            intervals_ns=((at, at),),
            edit=Edit(free=retries) if retries else None,
            basis="no memory given back and asked for again",
        )


def _retries(trace: Trace) -> tuple[int, ...]:
    """Allocations and frees of the judged window, where it has frees: blocks were given back under pressure."""
    span, calls = window(trace), host_calls(trace)
    if span is None:
        return ()
    calls = calls[(calls["kind"] == "alloc") & (calls["start_ns"] >= span.start_ns) & (calls["start_ns"] < span.end_ns)]
    return tuple(calls["row"].tolist()) if calls["name"].map(FREES).notna().any() else ()


RULE = Rule(
    code="MEM002",
    name="near-capacity",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.MEMORY),
    thresholds={
        "full_share": Threshold(
            0.90, "share of the device's memory", "above, one larger batch does not fit (RULES.md)"
        ),
        "held_over_used": Threshold(1.5, "held over peak in use", "a third lies idle even at the peak (RULES.md)"),
        "fragmented_from": Threshold(0.5, "share of the device's memory", "fragments of a small program harm nobody"),
    },
)
