"""The numbers by which a program is held against itself: what is the same in every window, and the rest apart.

Nothing here depends on how fast anything ran. A number that differs between two windows of one process, or between two
processes, is not a counter: it is kept as information, and no verdict rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.capture.counted import LEAD_STEPS, Recording
from profiler_doctor.analyzer.engine import Selection
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.measures.step_counts import counted_ops, step_counts, step_hashes
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.timeless import findings
from profiler_doctor.analyzer.trace import Trace

Value = int | str
HASHES = ("op_sequence", "op_signature")
FINDINGS = "findings."
PEAKS = frozenset({"peak_bytes"})
"""Of these a window's value is the largest of its steps, of everything else the sum."""
STANDS = ("graphs", "graph_breaks", "recompiles", "live_bytes")
"""Told at each step's start: a window's value is where it stands at the window's end."""


@dataclass(frozen=True, kw_only=True)
class Counters:
    """One program's counters. Numbers are per window of `window_steps` steps."""

    exact: Mapping[str, Value]
    """Name → what it was in every window. A name that is missing here and in `information` is 0."""
    information: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Name → the distinct values seen, where there were several."""
    ops: Mapping[str, int] = field(default_factory=dict)
    """Op → calls in every window."""
    varying: frozenset[str] = frozenset()
    """Ops whose number differs between windows."""
    windows: int = 1
    window_steps: int = 1


def counters(recording: Recording, trace: Trace, rules: Found[Rule], selection: Selection | None = None) -> Counters:
    """What is the same in all windows of one recording."""
    whole = recording.source is None
    per = max(int(recording.plan.options.get("window_steps", 1)), 1)
    first = 0 if whole else LEAD_STEPS
    counts, hashes = step_counts(trace).iloc[first:], step_hashes(trace).iloc[first:]
    windows = len(counts) // per
    values: dict[str, list[Value]] = {
        **{name: _windowed(counts[name], name, per, windows) for name in counts.columns.astype(str)},
        **{name: _joined(hashes[name], per, windows) for name in HASHES},
        **_standing(recording.marks[-windows * per :], per),
    }
    steady, unsteady = findings(trace, rules, selection)
    same, varying = _ops(trace, first, per, windows)
    exact, information = _parted(values)
    return Counters(
        exact={**exact, **{FINDINGS + code: count for code, count in steady.items()}},
        information={**information, **{FINDINGS + code: tuple(seen) for code, seen in unsteady.items()}},
        ops=same,
        varying=varying,
        windows=windows,
        window_steps=per,
    )


def agreed(one: Counters, other: Counters) -> Counters:
    """What two processes agree on; the rest becomes information."""
    names = [*one.exact, *(name for name in other.exact if name not in one.exact)]
    exact: dict[str, Value] = {}
    information = {**one.information}
    for name, seen in other.information.items():
        information[name] = tuple(dict.fromkeys((*information.get(name, ()), *seen)))
    for name in names:
        mine, theirs = (side.exact.get(name, 0) for side in (one, other))
        if name in information:
            information[name] = tuple(dict.fromkeys((*information[name], mine, theirs)))
        elif mine == theirs:
            exact[name] = mine
        else:
            information[name] = (mine, theirs)
    return Counters(
        exact=exact,
        information=information,
        ops={name: count for name, count in one.ops.items() if other.ops.get(name) == count},
        varying=one.varying
        | other.varying
        | {name for name in {*one.ops, *other.ops} if one.ops.get(name) != other.ops.get(name)},
        windows=one.windows + other.windows,
        window_steps=one.window_steps,
    )


def _parted(values: Mapping[str, list[Value]]) -> tuple[dict[str, Value], dict[str, tuple[Value, ...]]]:
    exact = {name: seen[0] for name, seen in values.items() if seen and len(set(seen)) == 1}
    return exact, {name: tuple(dict.fromkeys(seen)) for name, seen in values.items() if len(set(seen)) > 1}


def _windowed(column: pd.Series[int], name: str, per: int, windows: int) -> list[Value]:
    blocks = column.to_numpy(np.int64)[: windows * per].reshape(windows, per)
    return [int(value) for value in (blocks.max(axis=1) if name in PEAKS else blocks.sum(axis=1))]


def _joined(column: pd.Series[str], per: int, windows: int) -> list[Value]:
    texts = column.tolist()
    return ["+".join(dict.fromkeys(texts[place * per : (place + 1) * per])) for place in range(windows)]


def _standing(marks: Sequence[Mapping[str, int]], per: int) -> dict[str, list[Value]]:
    ends = marks[per - 1 :: per]
    return {name: [mark.get(name, 0) for mark in ends] for name in STANDS}


def _ops(trace: Trace, first: int, per: int, windows: int) -> tuple[dict[str, int], frozenset[str]]:
    table = counted_ops(trace)
    table = table.assign(window=(table["step"] - first) // per, name=table["name"].astype(str))
    table = table[(table["step"] >= first) & (table["window"] < windows)]
    counts = (
        table.groupby(["name", "window"]).size().unstack(fill_value=0).reindex(columns=range(windows), fill_value=0)
    )
    steady = counts.nunique(axis=1) == 1
    same = {str(name): int(count) for name, count in counts.loc[steady, 0].items()} if windows else {}
    return same, frozenset(str(name) for name in counts.index[~steady])
