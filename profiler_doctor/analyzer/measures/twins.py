"""The same op in a second recording of the same program, told by its name and turn within the step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.trace import Ints, Trace

BEFORE, AFTER = 3, 2
"""Ops that must be the same around an op of a recording without steps: a line of Python is some two or three ops."""
MIXER = np.uint64(1_000_003)
"""Odd: a hash of several names must depend on their order."""


def twins(trace: Trace, other: Trace, rows: Ints) -> Ints:
    """For each op row of `trace` its counterpart's row in `other`, -1 where there is none for certain.

    An op is named by its step, whether it ran on the step's own thread, its name, and its turn among those. It has a
    counterpart where a step of `other` holds as many of that name on that side as its own step does. Where neither
    recording has steps, so that one may be longer, an op is named by its thread's ops around it: see `_surroundings`.
    """
    if not len(steps(trace)) and not len(steps(other)):
        return _in_like_places(_surroundings(trace), _surroundings(other), rows)
    mine, theirs = _turns(trace), _turns(other)
    if mine.empty or theirs.empty:
        return np.full(len(rows), -1)
    chosen = mine.set_index("row").reindex(rows)
    keys = ["main", "name", "count", "turn"]
    first = theirs.sort_values("step", ascending=False, kind="stable").drop_duplicates(keys)  # the latest: warmest
    joined = chosen.reset_index().merge(first[[*keys, "row"]], on=keys, how="left", suffixes=("", "_other"))
    found: Ints = joined["row_other"].fillna(-1).to_numpy().astype(np.int64)
    return found


def _surroundings(trace: Trace) -> pd.DataFrame:
    """Every op's row, its side, and a hash of its name, of the BEFORE ops' before it and of the AFTER next ones'."""
    table = ops(trace)
    table = table[table["is_op"]].sort_values(["thread", "start_ns"], kind="stable")
    hashes = pd.util.hash_array(np.array([*trace.events.names, ""], dtype=object))
    names = pd.Series(hashes[trace.events.name[table["row"].to_numpy(np.int64)]], index=table.index)
    by_thread, around = names.groupby(table["thread"], sort=False), np.zeros(len(table), np.uint64)
    for shift in range(-AFTER, BEFORE + 1):
        around = around * MIXER + by_thread.shift(shift, fill_value=0).to_numpy(np.uint64)
    main = table["thread"].to_numpy() == _main_thread(trace, table)
    return pd.DataFrame({"row": table["row"].to_numpy(), "main": main, "around": around})


def _in_like_places(mine: pd.DataFrame, theirs: pd.DataFrame, rows: Ints) -> Ints:
    """The last one in a like place, the warmest."""
    last = theirs.drop_duplicates(["main", "around"], keep="last").rename(columns={"row": "there"})
    there = mine.merge(last, on=["main", "around"], how="left").set_index("row")["there"]
    found: Ints = there.reindex(rows).fillna(-1).to_numpy().astype(np.int64)
    return found


def _turns(trace: Trace) -> pd.DataFrame:
    table = ops(trace)
    table = table[table["is_op"] & (table["step"] >= 0 if len(steps(trace)) else True)]
    main = _main_thread(trace, table)
    table = pd.DataFrame(
        {
            "row": table["row"],
            "step": table["step"],
            "main": table["thread"] == main,
            "name": table["name"].astype(str),
            "start_ns": table["start_ns"],
        }
    )
    group = table.sort_values("start_ns", kind="stable").groupby(["step", "main", "name"], sort=False)
    table["turn"] = group.cumcount()
    table["count"] = group["row"].transform("size")
    return table


def _main_thread(trace: Trace, table: pd.DataFrame) -> int:
    marks = steps(trace)
    if len(marks):
        return int(marks["thread"].iloc[0])
    return int(table["thread"].mode().iloc[0]) if len(table) else -1
