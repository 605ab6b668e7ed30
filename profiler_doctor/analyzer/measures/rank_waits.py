"""Which rank of a job the others wait for: in a collective the last to come stays for the shortest time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.collectives import collectives
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.trace import Trace, measure

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""Collectives that no rank leaves before all have come; a broadcast's root may."""
KEY = ["step", "kind", "turn"]


@measure
def rank_waits(trace: Trace) -> pd.DataFrame:
    """The device's collectives of the judged steps that every rank of the job recorded, in time order.

    Columns: row (of this rank's own), start_ns, end_ns, dur_ns, step (the mark's name), kind, turn (its number among
    the step's collectives of that kind), shortest_ns and longest_ns (of all ranks), late_rank (whose is the shortest:
    all leave together, so it came last; no clocks are compared). Steps in which ranks ran different collectives, and
    collectives of groups with ranks that are not here, are left out.
    """
    every = {trace.rank: trace, **{peer.rank: peer for peer in trace.peers}}
    own = _keyed(trace, len(every))
    if len(every) < 2:
        return own.assign(shortest_ns=own["dur_ns"], longest_ns=own["dur_ns"], late_rank=-1)
    parts = [_keyed(each, len(every))[[*KEY, "dur_ns"]].assign(rank=rank) for rank, each in every.items()]
    by_key = pd.concat(parts, ignore_index=True).sort_values("dur_ns", kind="stable").groupby(KEY)
    found = by_key.agg(
        ranks=("rank", "nunique"),
        shortest_ns=("dur_ns", "min"),
        longest_ns=("dur_ns", "max"),
        late_rank=("rank", "first"),
    ).reset_index()
    shared = found[found["ranks"] == len(every)].drop(columns="ranks")
    partly = set(zip(*(found.loc[found["ranks"] < len(every), name] for name in ("step", "kind")), strict=True))
    alike = [pair not in partly for pair in zip(shared["step"], shared["kind"], strict=True)]
    return own.merge(shared[np.array(alike, np.bool_)], on=KEY, how="inner").sort_values("start_ns", ignore_index=True)


def _keyed(trace: Trace, ranks: int) -> pd.DataFrame:
    table = collectives(trace)
    whole = (table["group_size"] < 0) | (table["group_size"] == ranks)
    table = table[(table["device"] >= 0) & table["kind"].isin(TOGETHER) & whole]
    table = table[table["step"].isin(used_steps(trace).index)]
    step = steps(trace)["name"].reindex(table["step"]).to_numpy(dtype=object)
    table = table[["row", "start_ns", "end_ns", "dur_ns", "kind"]].assign(step=step)
    return table.assign(turn=table.groupby(["step", "kind"]).cumcount())
