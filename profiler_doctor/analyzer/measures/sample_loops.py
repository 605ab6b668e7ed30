"""Where a program gives tensor after tensor to the same layers, none of which needs what came of another.

`loops` tells of rows of one tensor by the shapes; here the tensors are a list, and what tells that one turn does not
need the turn before it is which op was given what.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from profiler_doctor.analyzer.measures.identity import Call, Uses, uses, with_identity
from profiler_doctor.analyzer.measures.loops import CELLS, EMBEDDING, LAYERS, forward_ops
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.ops import named
from profiler_doctor.analyzer.trace import Trace, measure

READS = re.compile(r"^aten::(?:item|_local_scalar_dense|is_nonzero|resolve_conj|resolve_neg)$")
"""What the program makes numbers or arrays of (the last two by way of `tolist` and `numpy`)."""
LEARNS = named(r"^Optimizer\.step")


@dataclass(frozen=True)
class SampleLoop:
    """One such loop in one step."""

    step: int
    starts: tuple[int, ...]
    """Rows of the layer that comes first in each turn."""
    shape: tuple[int, ...]
    """Of what it is given, a batch of one."""


@measure
def sample_loops(trace: Trace, least: int) -> tuple[tuple[SampleLoop, ...], ...]:
    """Each loop of at least `least` turns, as it was in every step that has it; none without tensors' identities."""
    told, recorded = uses(trace), trace.stacks
    if told is None or recorded is None:
        return ()
    rows = forward_ops(trace)[["row", "step"]]
    there = with_identity(trace, rows["row"].to_numpy(np.int64))
    found = []
    for group in _loops(recorded, told, least):
        begins = {call.row for call in group}
        mine = rows[np.isin(there, np.array(sorted(begins), np.int64))]
        shape = tensors(recorded, group[0].row)[0].dims
        of_steps = [(step, mine["row"][mine["step"] == step].tolist()) for step in mine["step"].unique().tolist()]
        whole = [SampleLoop(step, tuple(starts), shape) for step, starts in of_steps if len(starts) == len(group)]
        found += [tuple(whole)] if whole else []
    return tuple(found)


def _loops(recorded: Trace, told: Uses, least: int) -> list[list[Call]]:
    """The first layer's calls of each loop, in the recording that knows the tensors."""
    forward = set(forward_ops(recorded)["row"].tolist())
    learns = recorded.rows_named(LEARNS, ("user_annotation", "cpu_op"))
    learnt = recorded.events.start_ns[learns]
    found: list[list[Call]] = []
    for step in sorted({call.step for call in told.calls}):
        calls = [call for call in told.calls if call.step == step and call.row in forward]
        layers: dict[object, list[Call]] = defaultdict(list)
        for call in calls:
            if _is_layer(call) and _alone(recorded, call):
                shapes = tuple(operand.dims for operand in tensors(recorded, call.row))
                layers[call.name, told.storages[call.given[1]], shapes].append(call)
        groups = [group for group in layers.values() if len({call.given[0] for call in group}) == len(group) >= least]
        for group in groups[:1]:  # the first that began
            span = recorded.events.start_ns[[group[0].row, group[-1].row]]
            untaught = not ((learnt > span[0]) & (learnt < span[1])).any()
            found += [group] if untaught and _independent(told, calls, group) else []
    return found


def _is_layer(call: Call) -> bool:
    return bool(LAYERS.match(call.name)) and len(call.given) > 1


def _alone(recorded: Trace, call: Call) -> bool:
    """Whether a batch of one goes into weights."""
    shapes = [operand.dims for operand in tensors(recorded, call.row)]
    if len(shapes) < 2 or len(shapes[0]) < 1:
        return False
    unbatched = len(shapes[0]) < len(shapes[1]) if "conv" in call.name else len(shapes[0]) == 1
    return shapes[0][:1] == (1,) or unbatched


@dataclass
class _Flow:
    """Since which turn what lies in a storage depends on a turn's results, as the loop goes on."""

    told: Uses
    since: dict[int, int] = field(default_factory=dict)
    read: bool = False
    """Whether the program itself has looked at results, and may have made the next tensor of them."""

    def of(self, call: Call) -> set[int]:
        return {self.since[one] for one in self.told.storages_of(call.given) if one in self.since}

    def note(self, call: Call, origins: set[int]) -> None:
        for storage in (*call.made, *call.written) if origins else ():
            self.since[storage] = min(origins | {self.since.get(storage, min(origins))})


def _independent(told: Uses, calls: list[Call], group: list[Call]) -> bool:
    """Whether no layer is given what came of an earlier turn, nor what the program itself may have made of that."""
    begins, flow, turn = {call.row for call in group}, _Flow(told), -1
    first = told.calls.index(group[0])
    before = {storage for call in told.calls[:first] for storage in (*told.storages_of(call.given), *call.made)}
    for call in calls:
        turn += call.row in begins
        if turn < 0:
            continue
        origins = flow.of(call)
        flow.read |= bool(READS.match(call.name)) and bool(origins)
        if call.row in begins and flow.read and told.storages[call.given[0]] not in before:
            return False
        if _takes(call):
            taken = flow.since.get(told.storages[call.given[-1 if call.name == EMBEDDING else 0]], turn)
            if taken < turn and call.start_ns <= group[-1].start_ns:
                return False
            origins |= {turn}
        flow.note(call, origins)
    return True


def _takes(call: Call) -> bool:
    return bool(LAYERS.match(call.name) or CELLS.match(call.name) or call.name == EMBEDDING) and bool(call.given)
