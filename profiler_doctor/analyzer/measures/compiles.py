"""What torch.compile did while it was watched: compilations, their phases, recompilations, and calls of the result."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.ops import SLICES, nearest_above, ops, outermost, parent_of, place_of
from profiler_doctor.analyzer.measures.xla_programs import by_jax
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure

TIMED = " (dynamo_timed)"
"""How dynamo ends the name of a slice in which it times itself."""
DATA = re.compile(r"^(?P<phase>.+?)_data: (?:.*, )?compile_id=(?P<id>[^\s,]+)", re.DOTALL)
"""A mark that dynamo leaves just inside a phase's slice, saying what is compiled (torch 2.6 and later)."""
PHASES = re.compile(
    r"\(dynamo_timed\)$|^(?:dynamo|entire_(?:frame|backward)_compile|backend_compile|inductor_compile)$"
    r"|_compile\.(?:<locals>\.)?compile_inner|^compile_fx(?:_inner)?$"
)
"""Slices in which something is compiled, where no mark says so; the timed ones are there from torch 2.1 on."""
REGION = re.compile(r"^Torch-Compiled Region: (?P<id>\S+)")
ID = re.compile(r"^!?(?:\d+/)?(?P<frame>\d{1,18})/(?P<turn>\d{1,18})(?:_\d+)?$")
"""A compile id: frame/recompilation, with the compiled autograd's number before it and the attempt's after it."""


@measure
def compiles(trace: Trace) -> pd.DataFrame:
    """Every compilation in the recording, in time order: the outermost slices in which dynamo or inductor worked.

    Columns: row, name, thread (code), start_ns, end_ns, dur_ns, compile_id ("0/1": frame 0 for the second time; ""
    where the trace does not say), frame (-1 unknown), turn (0 the first time, more: a recompilation; -1 unknown),
    step (index, -1).
    """
    table = ops(trace)
    rows, phase = table["row"].to_numpy(np.int64), _is_phase(trace)
    within = np.flatnonzero(phase[rows])
    own = within[outermost(trace, rows[within], phase) == rows[within]]
    top = table.iloc[own].sort_values("start_ns", kind="stable")
    found = top[["row", "name", "thread", "start_ns", "end_ns", "dur_ns"]].reset_index(drop=True).astype({"name": str})
    marks = _marks(trace)
    told = dict(zip(outermost(trace, marks, phase).tolist(), _ids(trace, marks, DATA), strict=True))
    found["compile_id"] = [told.get(row, "") for row in found["row"].tolist()]
    return numbered(found).assign(step=top["step"].to_numpy())


@measure
def compile_phases(trace: Trace) -> pd.DataFrame:
    """One row per phase of compiling, the largest own time first.

    Columns: phase (the slice's name without "(dynamo_timed)"), count, time_ns (with the phases inside it), self_ns
    (without them; the column adds up to the time of all compilations).
    """
    table = ops(trace)
    inside = table[_is_phase(trace)[table["row"].to_numpy(np.int64)]]
    rows, dur = inside["row"].to_numpy(np.int64), inside["dur_ns"].to_numpy(np.int64)
    above = nearest_above(trace, rows, _is_phase(trace))
    spent = np.zeros(len(trace.events) + 1, np.int64)  # the last place is for what no phase is around
    np.add.at(spent, above, dur)
    names = np.full(len(trace.events) + 1, "", dtype=object)
    names[rows] = [name.removesuffix(TIMED) for name in inside["name"]]
    own = names[above] != names[rows]  # a phase and its timed slice are one
    parts = pd.DataFrame({"phase": names[rows], "own": own, "time_ns": dur * own, "self_ns": dur - spent[rows]})
    grouped = parts.astype({"own": "int64"}).groupby("phase", sort=True)
    found = grouped.agg(count=("own", "sum"), time_ns=("time_ns", "sum"), self_ns=("self_ns", "sum")).reset_index()
    return found.sort_values("self_ns", ascending=False, kind="stable", ignore_index=True)


@measure
def compiled_regions(trace: Trace) -> pd.DataFrame:
    """One row per compiled region that was called, in the order of their ids.

    Columns: compile_id, frame and turn (as in `compiles`), calls, time_ns (host time inside it).
    """
    table = ops(trace)
    regions = table.iloc[np.sort(place_of(trace)[trace.rows_named(REGION.search, SLICES)])]
    regions = regions.assign(compile_id=_ids(trace, regions["row"].to_numpy(np.int64), REGION))
    found = regions.groupby("compile_id", sort=True).agg(calls=("row", "size"), time_ns=("dur_ns", "sum"))
    found = numbered(found.reset_index()).sort_values(["frame", "turn"], kind="stable", ignore_index=True)
    return found[["compile_id", "frame", "turn", "calls", "time_ns"]]


def ever_compiled(trace: Trace) -> bool:
    """Whether anything was compiled in the recording, or a compiled region called."""
    return bool(len(compiles(trace)) or len(trace.rows_named(REGION.search, SLICES)))


@measure
def recompiles(trace: Trace) -> pd.DataFrame:
    """One row per frame that was compiled more than once, by compilations in the recording or by regions called.

    Columns: frame, versions (distinct ones seen), highest_turn (how often it had been compiled again in all), in_trace
    (compilations after the first that fall into the recording), time_ns (what those took).
    """
    made, called = compiles(trace), compiled_regions(trace)
    seen = pd.concat((made[["frame", "turn"]], called[["frame", "turn"]])).drop_duplicates()
    seen = seen[seen["frame"] >= 0]
    by_frame = seen.groupby("frame", sort=True)["turn"]
    found = pd.DataFrame({"versions": by_frame.size(), "highest_turn": by_frame.max()})
    again = made[(made["frame"] >= 0) & (made["turn"] > 0)].groupby("frame")["dur_ns"]
    found["in_trace"] = again.size().reindex(found.index, fill_value=0)
    found["time_ns"] = again.sum().reindex(found.index, fill_value=0)
    return found[found["highest_turn"] > 0].rename_axis("frame").reset_index()


@measure
def _marks(trace: Trace) -> Ints:
    """Rows of the marks that say what is compiled, the latest first: of several in one compilation the first counts."""
    rows = trace.rows_named(DATA.match, ("user_annotation", "cpu_op"))
    return rows[np.argsort(trace.events.start_ns[rows], kind="stable")[::-1]]


@measure
def _is_phase(trace: Trace) -> Bools:
    """For every event row: whether something is compiled in it, by its name or by the mark inside it."""
    events = trace.events
    marks, phases = _marks(trace), events.matching_names(PHASES.search)
    if by_jax(trace) or (not phases.any() and not len(marks)):
        return np.broadcast_to(np.False_, len(events))  # takes no memory
    mask = phases[events.name]
    parents = parent_of(trace, marks)
    told = [match["phase"] if (match := DATA.match(name)) else "" for name in events.names_at(marks)]
    there = [row >= 0 and events.name_of(row) == phase for row, phase in zip(parents.tolist(), told, strict=True)]
    mask[parents[np.array(there, np.bool_)]] = True
    mask[marks] = False
    return mask


def _ids(trace: Trace, rows: Ints, pattern: re.Pattern[str]) -> list[str]:
    return [match["id"] if (match := pattern.match(name)) else "" for name in trace.events.names_at(rows)]


def numbered(table: pd.DataFrame) -> pd.DataFrame:
    """With the frame and the turn of each compile id, -1 where it has none."""
    found = [ID.match(text) for text in table["compile_id"]]
    frame = np.array([int(match["frame"]) if match else -1 for match in found], np.int64)
    turn = np.array([int(match["turn"]) if match else -1 for match in found], np.int64)
    return table.assign(frame=frame, turn=turn)


COMPILES = Table(name="compiles", of=compiles)
PHASE_TABLE = Table(name="compile-phases", of=compile_phases)
REGIONS = Table(name="compiled-regions", of=compiled_regions)
RECOMPILES = Table(name="recompiles", of=recompiles)
