"""One rank comes last to the collectives, step after step, and all others wait for it.

What it finds
    In a job of which several ranks were recorded: the same rank is the last to join the collectives in at least 80 % of
    three or more steps, and the others wait for it for more than 5 % of a step. The last to come stays for the
    shortest time, since all leave together; clocks are not compared.

Why it costs
    A synchronous job goes at the pace of its slowest rank: every other GPU stands still for what that one lags.

What to do
    Look at that rank: more or longer samples, data loading, a slower or hotter GPU, another process on its host. Shard
    by work and not by count; balance tables and experts.

When not to
    With pipeline stages ranks differ by design. Two or three steps that one rank logs or saves in are no habit.

Source
    RULES.md, DST002. At stake is what this rank waits beyond the one that waits least; the late rank itself has nothing
    to win but the others' time.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.rank_waits import rank_waits
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, told to every rank."""
    span, table = window(trace), rank_waits(trace)
    if span is None or table["step"].nunique() < limits["steps"]:
        return
    table = table.assign(spread_ns=table["longest_ns"] - table["shortest_ns"])
    late = _late_by_step(table)
    rank, often = late.mode().iloc[0], float((late == late.mode().iloc[0]).mean())
    mine = table[table["late_rank"] == rank]
    spread = int(mine["spread_ns"].sum()) / len(late)
    if often < limits["share_of_steps"] or spread < limits["step_share"] * span.span_ns / span.per:
        return
    waited = int((mine["dur_ns"] - mine["shortest_ns"]).sum())
    itself = rank == trace.rank
    yield Sighting(
        message=f"Rank {rank} comes last to the collectives in {often:.0%} of {len(late)} steps: the others wait up to "
        f"{spread / 1e6:.3g} ms per step" + (", this one not at all." if itself else "."),
        where=Where(op=str(mine["kind"].mode().iloc[0])),
        evidence={
            "late_rank": int(rank),
            "share_of_steps": round(often, 6),
            "ranks": len(trace.peers) + 1,
            "spread_ns_per_step": int(spread),
            "waited_ns": waited,
            "collectives": len(mine),
        },
        intervals_ns=places(mine.sort_values("spread_ns", ascending=False)),
        edit=None if itself else Edit(keep=_shares(mine)),
        basis=f"rank {rank} as early as the others",
    )


def _late_by_step(table: pd.DataFrame) -> pd.Series[int]:
    """For each step the rank for which the others wait longest."""
    by_rank = table.groupby(["step", "late_rank"], sort=False)["spread_ns"].sum()
    longest = by_rank.reset_index().sort_values("spread_ns", kind="stable").drop_duplicates("step", keep="last")
    return longest.set_index("step")["late_rank"]


def _shares(mine: pd.DataFrame) -> dict[int, float]:
    """What stays of this rank's collectives when nobody is waited for."""
    share = mine["shortest_ns"] / mine["dur_ns"].clip(lower=1)
    return dict(zip(mine["row"].tolist(), share.clip(lower=1e-9).tolist(), strict=True))


RULE = Rule(
    code="DST002",
    name="straggler",
    doc=__doc__,
    find=find,
    needs=(Has.RANKS, Has.STEPS, Has.KERNELS, Has.LAUNCHES),
    thresholds={
        "steps": Threshold(3, "steps", "a habit shows in several (no forced ranking)"),
        "share_of_steps": Threshold(0.8, "share of the steps", "what changes hands is jitter (RULES.md)"),
        "step_share": Threshold(0.05, "share of the step", "ranks never come at the very same time (RULES.md)"),
    },
)
