"""Most kernels are over before the next one can be launched.

What it finds
    At least half of the kernels run for less than 10 µs, and at least half start within 25 µs of their launch: the
    queue in front of them was empty.

Why it costs
    The device needs a few microseconds to start a kernel and the host more than that to launch one. A flood of tiny
    kernels pays this once per kernel; the arithmetic itself hardly counts.

What to do
    Let a compiler fuse them (`torch.compile`), use the `foreach` or `fused` form of an optimizer, or put more data into
    each call: a larger batch, or one op over a stacked tensor instead of a loop.

When not to
    Short kernels behind a deep queue cost nothing, which is why the second half of the test is there. A decode step of
    batch one has nothing to batch: there only a graph or fusion helps.

Source
    RULES.md, LCH002. At stake are the launches of all but the first kernel of each run of such kernels, with the
    dispatch of their ops; the Python between them and the kernels themselves stay. Most of that is LCH001's time too,
    and the joint replay counts it once.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for the whole window."""
    work = linked_work(trace)
    kernels = work[work["kind"] == "kernel"]
    if len(kernels) < limits["kernels"]:
        return
    tiny = kernels["dur_ns"] < limits["tiny_us"] * 1000
    waited = kernels["start_ns"] - kernels["launch_start_ns"] < limits["empty_queue_us"] * 1000
    if not tiny.any() or tiny.mean() < limits["tiny_share"] or waited.mean() < limits["empty_queue_share"]:
        return
    yield Sighting(
        message=f"{tiny.mean():.0%} of {len(kernels)} kernels run for under {limits['tiny_us']:g} µs, and "
        f"{waited.mean():.0%} start on an empty queue.",
        where=where_of(trace, _commonest(kernels[tiny])),
        evidence={
            "kernels": len(kernels),
            "tiny_share": round(float(tiny.mean()), 6),
            "empty_queue_share": round(float(waited.mean()), 6),
            "median_kernel_ns": int(kernels["dur_ns"].median()),
        },
        intervals_ns=places(kernels[tiny & waited]),
        edit=Edit(joined=_all_but_the_first(kernels, tiny & waited)),
        basis="one launch for each run of tiny kernels; LCH001 counts the same time, the joint stake counts it once",
    )


def _commonest(kernels: pd.DataFrame) -> int:
    """The op that launched the first of the most frequent tiny kernel."""
    name = kernels["name"].mode().iloc[0]
    return int(kernels.loc[kernels["name"] == name, "op"].iloc[0])


def _all_but_the_first(kernels: pd.DataFrame, chosen: pd.Series[bool]) -> tuple[int, ...]:
    """The chosen kernels that follow another chosen one on their stream: they could go with its launch."""
    before = chosen.groupby([kernels["device"], kernels["stream"]]).shift(1, fill_value=False)
    return tuple(kernels.loc[chosen & before, "row"].tolist())


RULE = Rule(
    code="LCH002",
    name="tiny-kernel-flood",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES),
    thresholds={
        "tiny_us": Threshold(10, "µs", "about what one launch costs the host"),
        "tiny_share": Threshold(0.5, "share of kernels", "a flood is the rule, not the exception"),
        "empty_queue_us": Threshold(25, "µs from launch to start", "launch latency is 5 to 20 µs; longer means queued"),
        "empty_queue_share": Threshold(0.5, "share of kernels", "with a deep queue short kernels cost nothing"),
        "kernels": Threshold(10, "kernels", "fewer are a start-up or a fragment, no steady state"),
    },
)
