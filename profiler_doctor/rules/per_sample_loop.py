"""The model is called for one sample, or one time step, after the other, though all of them are there.

What it finds
    A layer that takes one row of a tensor at a time as a batch of one, at least 16 times in a step, each time another
    row; and a recurrent cell (LSTMCell, GRUCell, RNNCell, or a module of the user's own whose name ends in Cell) that
    is called at least 16 times in a step. Where our own capture recorded which op was given which tensor, also a layer
    that takes one tensor of a list after the other, none of them made of an earlier one's result. Where each such call
    is a step of its own: that each of them takes another row of the same tensor of at least 16 rows, in a program that
    does not train, or not after each of them.

Why it costs
    Each op has a price that does not depend on its data: the dispatch, the Python around it, reading the weights. A
    batch pays it once, the loop for each sample, and its matrix products are too thin for the machine's units.

What to do
    Give the whole tensor to the model: `model(x)` for `[model(row) for row in x]`; a list of tensors as
    `model(torch.stack(samples))`, or `torch.cat` where each is a batch of one already. For a cell: `nn.LSTM`, `nn.GRU`
    or `nn.RNN` over the sequence; where the cell is your own, multiply all inputs by the input weights before the loop.
    Where the loop must stay, `torch.compile` lowers the price of each turn.

When not to
    Where a turn needs the one before it in another way than a recurrent layer offers: decoding with feedback, an
    environment that answers. A network of many equal layers is no such loop and is not taken for one.

Source
    PyTorch's performance tuning guide; dr-costas/SEDLM#1 (a GRUCell loop); NLESC-JCER/QMCTorch#127.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.cells import cell_calls
from profiler_doctor.analyzer.measures.loops import CELLS, Turn, outer_ops, turns
from profiler_doctor.analyzer.measures.sample_loops import sample_loops
from profiler_doctor.analyzer.measures.share import intervals_of, trains
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.measures.work import multiplications_in
from profiler_doctor.analyzer.trace import Ints, Trace

MULTIPLICATIONS_PER_S = 1e11
"""What one fast core does (two vector units of 16 floats at 3 GHz): a batch cannot take less time than that."""


@dataclass(frozen=True)
class Loop:
    """One loop in one step: the row of the op that begins each turn."""

    starts: tuple[int, ...]
    step: int
    over: str


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: the loop that takes longest within the steps, else the one that the steps themselves are."""
    loops = _in_steps(trace, limits["turns"])
    if loops:
        yield _within(trace, max(loops, key=lambda found: sum(_length_ns(trace, loop) for loop in found)))
    else:
        yield from _across(trace, limits)


def _in_steps(trace: Trace, least: float) -> list[list[Loop]]:
    """Each loop of enough turns, as it was in every judged step."""
    found: dict[object, list[Loop]] = defaultdict(list)
    judged = set(used_steps(trace).index.tolist()) or {-1}
    for (key, step), members in _by_loop(trace).items():
        different = {turn.index if turn.index >= 0 else turn.start for turn in members}
        if len(different) >= least and step in judged:
            starts = tuple(sorted({turn.start for turn in members}))
            found[key].append(Loop(starts, step, _over(members[0])))
    for cell, calls in cell_calls(trace).groupby("cell"):
        name = str(cell).rpartition("/")[2].removeprefix("aten::")
        for step in sorted(judged):
            rows = calls["row"][calls["step"] == step].tolist()
            if len(rows) >= least:
                found[cell].append(Loop(tuple(rows), step, f"{name} takes one time step of a sequence"))
    return list(found.values()) + _over_lists(trace, judged, int(least))


def _over_lists(trace: Trace, judged: set[int], least: int) -> list[list[Loop]]:
    """Loops over tensors that lie apart, which only their identities show."""
    found = []
    for loop in sample_loops(trace, least):
        name = trace.events.name_of(loop[0].starts[0]).removeprefix("aten::")
        over = f"{name} takes one {'×'.join(map(str, loop[0].shape))} tensor of a list"
        found.append([Loop(one.starts, one.step, over) for one in loop if one.step in judged])
    return [loops for loops in found if loops]


def _by_loop(trace: Trace) -> Mapping[tuple[object, int], list[Turn]]:
    found: dict[tuple[object, int], list[Turn]] = defaultdict(list)
    for turn in turns(trace):
        if turn.alone:
            found[turn.key, turn.step].append(turn)
    return found


def _over(turn: Turn) -> str:
    name, _, shape, rows = turn.key
    whole = "×".join(map(str, (rows, *shape)))  # type: ignore[misc]  # the key holds a shape there
    return f"{str(name).removeprefix('aten::')} takes one row of a {whole} tensor"


def _within(trace: Trace, loops: Sequence[Loop]) -> Sighting:
    count = int(np.median([len(loop.starts) for loop in loops]))
    starts = [row for loop in loops for row in loop.starts]
    return Sighting(
        message=f"{loops[0].over} at a time, {count} times {'in each step' if loops[0].step >= 0 else 'in a row'}.",
        where=where_of(trace, loops[0].starts[0]),
        evidence={"turns": count, "steps": len(loops), "op": trace.events.name_of(loops[0].starts[0])},
        intervals_ns=intervals_of(trace, starts),
        edit=Edit(keep={row: share for loop in loops for row, share in _one_turn(trace, loop).items()}),
        basis="all turns in one, no faster than their multiplications",
    )


def _one_turn(trace: Trace, loop: Loop) -> Mapping[int, float]:
    """Row → share that stays when all turns but the last are gone except for their multiplications.

    The Python between the ops goes with them, so it is the step's own row that is shortened; each gradient by itself.
    """
    table, span = outer_ops(trace), _all_but_one(trace, loop)
    mine = (table["thread"] == int(trace.events.thread[loop.starts[0]])) & (table["step"] == loop.step)
    turns_ops = table[mine & (table["start_ns"] >= span[0]) & (table["start_ns"] < span[1])]["row"].to_numpy()
    gradients = _gradients_of(trace, table[mine]["row"].to_numpy(), span)
    kept = _multiplying(trace, gradients)
    if loop.step < 0:
        return kept | _multiplying(trace, turns_ops)
    mark = steps(trace).iloc[loop.step]
    lost = span[1] - span[0] - int(_needed_ns(trace, turns_ops).sum())
    return kept | {int(mark["row"]): 1 - max(lost, 0) / int(mark["mark_end_ns"] - mark["start_ns"])}


def _gradients_of(trace: Trace, rows: Ints, span: tuple[int, int]) -> Ints:
    """Those of the rows that work out gradients for ops which began within the span."""
    forward = forward_of(trace, rows)
    began = trace.events.start_ns[forward]
    theirs: Ints = rows[(forward != rows) & (began >= span[0]) & (began < span[1])]
    return theirs


def _multiplying(trace: Trace, rows: Ints) -> dict[int, float]:
    shares = np.minimum(_needed_ns(trace, rows) / np.maximum(trace.events.dur_ns[rows], 1), 1.0)
    return dict(zip(rows.tolist(), shares.tolist(), strict=True))


def _needed_ns(trace: Trace, rows: Ints) -> npt.NDArray[np.float64]:
    return multiplications_in(trace, rows) / MULTIPLICATIONS_PER_S * 1e9


def _all_but_one(trace: Trace, loop: Loop) -> tuple[int, int]:
    """From the start of the first turn to the start of the last one."""
    return int(trace.events.start_ns[loop.starts[0]]), int(trace.events.start_ns[loop.starts[-1]])


def _length_ns(trace: Trace, loop: Loop) -> int:
    return int(trace.events.end_ns[loop.starts[-1]] - trace.events.start_ns[loop.starts[0]])


def _across(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """A loop whose turns are the steps: each takes another row of the same tensor, and none learns from it."""
    found: dict[object, list[Turn]] = defaultdict(list)
    for turn in turns(trace):
        if turn.step >= 0 and turn.index >= 0 and turn.rows >= limits["turns"] and _counts(trace, turn):
            found[turn.key].append(turn)
    judged = len(used_steps(trace))
    for members in found.values() if _independent(trace, limits["turns"]) else ():
        different = len({turn.index for turn in members}) >= min(len(members), members[0].rows)
        if judged >= limits["steps"] and len({turn.step for turn in members}) >= judged and different:
            yield _between(trace, members)
            return


def _independent(trace: Trace, least: float) -> bool:
    """Whether the steps do not learn from each other: no training, or many calls to each step of the optimizer."""
    facts = trace.facts
    if not trains(trace) or facts is None or not facts.optimizer_steps:
        return not trains(trace)
    return max((root.calls for root in facts.roots), default=0) >= least * facts.optimizer_steps


def _counts(trace: Trace, turn: Turn) -> bool:
    """A batch of one, or a time step of a cell: torch's own, or a root module that is named so."""
    roots = trace.facts.roots if trace.facts else ()
    in_cell = bool(CELLS.match(trace.events.name_of(turn.layer))) or any(root.name.endswith("Cell") for root in roots)
    return turn.alone or in_cell


def _between(trace: Trace, members: Sequence[Turn]) -> Sighting:
    return Sighting(
        message=f"{_over(members[0])} at a time, and each call is a step of its own.",
        where=where_of(trace, members[0].layer),
        evidence={"rows": members[0].rows, "turns_seen": len(members), "indices": [turn.index for turn in members[:8]]},
        intervals_ns=intervals_of(trace, [turn.layer for turn in members]),
    )


RULE = Rule(
    code="PYB006",
    name="per-sample-loop",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={
        "turns": Threshold(16, "turns", "fewer are as often a handful of different branches as a batch taken apart"),
        "steps": Threshold(3, "steps", "of which each takes another row: with fewer it may be chance"),
    },
)
