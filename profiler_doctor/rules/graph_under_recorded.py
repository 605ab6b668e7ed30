"""A captured graph ran on the GPU, and the trace holds only part of its work, or none.

What it finds
    Launches of graphs with no GPU work recorded for them, though the recording went on for long enough; and launches
    with fewer kernels than other launches that are evidently of the same graph.

Why it costs
    It does not, but what was not recorded looks like idle time, and every share of the GPU's time is of too little.

What to do
    Record graphs node by node: newer CUPTI does so by itself; in Nsight Systems it is `--cuda-graph-trace=node`. Or
    record a run without graphs to see the kernels, and one with graphs for the times.

When not to
    A graph launched shortly before the recording ends is cut off as everything else there, and is not counted.

Source
    RULES.md, MSR004. Where it is grave, findings that rest on idle time or on shares of kernels are not believed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.graphs import graph_launches
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.trace import Bools, Trace

COUNTS = ("kernels", "memcpys", "memsets")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One note for the trace."""
    if not (host_calls(trace)["kind"] == "graph_launch").any():
        return
    launches = _whole(trace, graph_launches(trace))
    if not len(launches):
        return
    empty = (launches[list(COUNTS)].sum(axis=1) == 0).to_numpy()
    short = ~empty & _short(launches["kernels"].to_numpy(np.int64), limits["near"], limits["missing"])
    lacking = launches[empty | short]
    if len(lacking):
        parts = [f"{empty.sum()} without any work"] if empty.any() else []
        parts += [f"{short.sum()} with fewer kernels than others of the same graph"] if short.any() else []
        yield Sighting(
            message=f"Of {len(launches)} graph launches {len(lacking)} are recorded only in part ({', '.join(parts)}): "
            "idle times and shares of the GPU's time are not to be believed.",
            evidence={"events": len(lacking), "empty": int(empty.sum()), "short": int(short.sum())},
            intervals_ns=places(lacking),
            grave=len(lacking) >= limits["grave_share"] * len(launches),
        )


def _whole(trace: Trace, launches: pd.DataFrame) -> pd.DataFrame:
    """The launches that the recording had time for: not those after which nothing more was recorded of the GPU."""
    work = gpu_work(trace)
    last = int(work["end_ns"].max()) if len(work) else 0
    following = int((work["launch_start_ns"] if len(work) else pd.Series([0])).max())
    return launches[(launches["end_ns"] <= last) & (launches["start_ns"] <= following)]


def _short(kernels: np.ndarray[tuple[int], np.dtype[np.int64]], near: float, missing: float) -> Bools:
    """Launches whose count is near to one that most launches of about that size have, and below it."""
    found = np.zeros(len(kernels), np.bool_)
    for count in np.unique(kernels[kernels > 0])[::-1].tolist():
        about = (kernels <= count) & (kernels >= count * (1 - near))
        usual = int((kernels == count).sum())
        if usual >= 2 and 2 * usual > int(about.sum()):
            found |= about & (kernels < count * (1 - missing))
    return found


RULE = Rule(
    code="MSR004",
    name="graph-under-recorded",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS,),
    thresholds={
        "near": Threshold(0.10, "of the kernels of a graph", "graphs that differ by more are different graphs"),
        "missing": Threshold(0.01, "of the kernels of a graph", "RULES.md; a graph launches the same work each time"),
        "grave_share": Threshold(0.01, "of the graph launches", "what a finding has to reach to matter"),
    },
    vetoes=("LCH", "SYN", "CPY", "FUS", "ATT", "KRN", "PRC", "LAY"),
)
