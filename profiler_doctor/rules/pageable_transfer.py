"""Copies between host and GPU go through ordinary, pageable memory.

What it finds
    Copies that the trace itself calls pageable, other than scalar reads, which move 1 MB or more per step, take 5 % or
    more of the GPU's idle time, or (to the GPU) make the host wait for 1 % of the window. Each direction is a finding
    of its own.

Why it costs
    The driver first copies pageable memory into a pinned buffer of its own. That halves the bandwidth or worse, and
    the call does not return before it is done, so the host cannot run ahead and the copy cannot overlap with kernels.

What to do
    Let the data loader pin its batches (`DataLoader(..., pin_memory=True)`) and copy with `non_blocking=True`. For
    results, copy into a pinned buffer and wait for an event one step later.

When not to
    A one-off upload of the model before the first kernel costs once, whatever memory it comes from. Pinned memory is
    taken from the whole machine; a few batches are plenty. ROCm's traces do not say which kind of memory was used, so
    nothing is said of them.

Source
    RULES.md, CPY001; the trace's copy names. Up to PCIe's 3rd generation pinned copies reach about 12 GB/s.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.ops import inside_named, named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.measures.window import Window, in_window, linked_time, linked_work, window
from profiler_doctor.analyzer.trace import Trace

SCALAR = named(r"^aten::(item|_local_scalar_dense|is_nonzero)$")
WORDS = {"HtoD": "to the GPU come from", "DtoH": "from the GPU go to"}


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding for each direction."""
    span, table = window(trace), copies(trace)
    if span is None:
        return
    table = table[table["pageable"] & in_window(trace, table)]
    table = table[~inside_named(trace, table["op"].to_numpy(np.int64), SCALAR)]
    idle = sum(linked_time(trace).idle_by_cause.values())
    for direction, words in WORDS.items():
        moved = table[table["direction"] == direction]
        size, time = int(moved["bytes"].clip(lower=0).sum()), int(moved["dur_ns"].sum())
        much = size >= limits["bytes_per_step"] * span.per
        waited = int(_inner_waits(trace, moved)["dur_ns"].sum())
        held_up = direction == "HtoD" and waited >= limits["waited_share"] * span.span_ns
        if len(moved) and (much or held_up or time >= limits["idle_share"] * max(idle, 1)):
            yield _sighting(trace, moved, words, limits["pinned_gb_per_s"])


def _sighting(trace: Trace, moved: pd.DataFrame, words: str, pinned_gb_per_s: float) -> Sighting:
    size, time = int(moved["bytes"].clip(lower=0).sum()), int(moved["dur_ns"].sum())
    once = _once(trace, moved)
    when = "once, before the steady state: a one-off upload" if once else _often(trace, moved)
    waits = _inner_waits(trace, moved)
    waited = int(waits["dur_ns"].sum())
    dearest = waits.nlargest(1, "dur_ns") if waited > time else moved.nlargest(1, "bytes")
    upload = moved["direction"].iloc[0] == "HtoD"
    return Sighting(
        message=f"{len(moved)} copies {words} pageable memory: {size / 1e6:.3g} MB in {time / 1e6:.3g} ms ({when})"
        + (f"; the host waits {waited / 1e6:.3g} ms for them." if waited > time else "."),
        where=where_of(trace, int(dearest["op"].iloc[0])),
        evidence={
            "copies": len(moved),
            "bytes": size,
            "time_ns": time,
            "one_off": once,
            "gb_per_s": round(size / time, 3) if time else None,
            "exposed_ns": int(moved["exposed_ns"].sum()),
            "waited_ns": waited,
        },
        intervals_ns=places(moved),
        edit=Edit(keep=_at_pinned_speed(moved, pinned_gb_per_s), free=_waits(trace, moved) if upload else ()),
        basis=f"pinned copies at {pinned_gb_per_s:g} GB/s" + (", the host not waiting" if upload else ""),
    )


def _once(trace: Trace, moved: pd.DataFrame) -> bool:
    """Whether the copies are all before the first kernel, or all in one of several steps."""
    work = linked_work(trace)
    kernels = work[work["kind"] == "kernel"]
    span = window(trace)
    if span is not None and span.steps > 1:
        return moved["step"].nunique() == 1
    return not len(kernels) or int(moved["start_ns"].max()) < int(kernels["start_ns"].min())


def _often(trace: Trace, moved: pd.DataFrame) -> str:
    span = window(trace)
    assert isinstance(span, Window)
    return f"{len(moved) / span.per:.3g} per {span.unit}"


def _at_pinned_speed(moved: pd.DataFrame, gb_per_s: float) -> dict[int, float]:
    """Share of each copy's time that stays; 1 GB/s is one byte per ns. Copies of unknown size stay as they are."""
    needed = moved["bytes"] / gb_per_s
    share = (needed / moved["dur_ns"].clip(lower=1)).clip(upper=1.0).where(moved["bytes"] > 0, 1.0)
    return dict(zip(moved["row"].tolist(), share.tolist(), strict=True))


def _waits(trace: Trace, moved: pd.DataFrame) -> tuple[int, ...]:
    """The copy calls, and the synchronizations that follow them inside the same op."""
    return tuple(sorted({*moved["launch"].tolist(), *_inner_waits(trace, moved)["row"].tolist()}))


def _inner_waits(trace: Trace, moved: pd.DataFrame) -> pd.DataFrame:
    """The synchronizations inside the copies' ops: what the host waits beyond the copy calls, which do some work."""
    table = syncs(trace)
    return table[table["synchronize"] & (table["op"] >= 0) & table["op"].isin(moved["op"])]


RULE = Rule(
    code="CPY001",
    name="pageable-transfer",
    doc=__doc__,
    find=find,
    needs=(Has.LAUNCHES,),
    thresholds={
        "bytes_per_step": Threshold(1_000_000, "bytes", "smaller copies cost their latency, pinned or not (RULES.md)"),
        "idle_share": Threshold(
            0.05, "share of the GPU's idle time", "small copies count where they are what idles it"
        ),
        "waited_share": Threshold(
            0.01, "share of the window", "an index of a few bytes from the CPU can wait for all that is queued"
        ),
        "pinned_gb_per_s": Threshold(12, "GB/s", "what PCIe 3.0 x16 gives pinned memory; newer links give more"),
    },
)
