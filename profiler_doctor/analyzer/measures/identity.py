"""Which op was given which tensor: what our capture's second recording saw, in that recording's own rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.ops import is_op, ops, outermost
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.trace import Ints, Trace, measure

IN_PLACE = re.compile(r"^aten::\w*[^_]_$")
SHAPE_ONLY = re.compile(
    r"^aten::(?:detach|requires_grad|t|transpose|squeeze|unsqueeze|swapaxes|swapdims|as_strided|rename|retain_grad)_$"
)
"""In place, and yet the numbers stay as they are."""
MANY_AT_ONCE = re.compile(r"^aten::_(?:foreach|fused|amp_foreach)_\w+_$")
READS = re.compile(
    r"^aten::(?:item|_local_scalar_dense|is_nonzero|equal|allclose|to|contiguous|lift_fresh|detach|alias|dropout|positive"
    r"|view|view_as|view_as_real|view_as_complex|_?reshape|_reshape_alias|_unsafe_view|ravel|flatten|unflatten|real|_?conj"
    r"|resolve_conj|resolve_neg|expand|expand_as|broadcast_to|broadcast_tensors|meshgrid|permute|transpose|t|mT|mH"
    r"|numpy_T|movedim|swapaxes|swapdims|select|slice|narrow|diagonal|unfold|as_strided|squeeze|unsqueeze|atleast_[123]d"
    r"|split|split_with_sizes|chunk|tensor_split|hsplit|vsplit|unbind|type_as|is_pinned|pin_memory|record_stream)$"
)
"""What makes no memory and writes none: views, and ops that had nothing to do."""


@dataclass(frozen=True)
class Call:
    """One op that no other op called, with what the ops inside it did."""

    row: int
    """Of the recording with stacks."""
    start_ns: int
    name: str
    step: int
    given: tuple[int, ...]
    """Tensors, in the order of its arguments."""
    made: tuple[int, ...]
    """Storages."""
    written: frozenset[int]
    """Storages it wrote to, or may have, without having made them."""


@dataclass(frozen=True)
class Uses:
    """All ops of the recording with stacks that say what they were given, in time order."""

    calls: tuple[Call, ...]
    storages: tuple[int, ...]
    """Tensor → storage."""
    sizes: tuple[int, ...]
    """Tensor → elements."""
    given: Mapping[int, tuple[int, ...]]
    """Row of the recording with stacks, nested ones too → the tensors among its arguments."""

    def storages_of(self, tensors: tuple[int, ...]) -> tuple[int, ...]:
        """Where each of them lies."""
        return tuple(self.storages[tensor] for tensor in tensors)


@measure
def uses(trace: Trace) -> Uses | None:
    """What is known of tensors' identities; None where our capture did not record them."""
    facts, recorded = trace.facts.tensors if trace.facts else None, trace.stacks
    if facts is None or recorded is None:
        return None
    place = _places(trace)
    rows = np.array(sorted(place, key=place.__getitem__), np.int64)
    outer = outermost(recorded, rows, is_op(recorded))
    step = ops(recorded).set_index("row")["step"].reindex(outer).to_numpy(np.int64)
    names = recorded.events.names_at(rows)
    writes: dict[int, set[int]] = {}
    for row, name, above in zip(rows.tolist(), names, outer.tolist(), strict=True):
        given = facts.given[place[row]]
        filled = (one for one in _written(name, given) if facts.sizes[one])  # nothing lies in an empty one
        writes.setdefault(above, set()).update(facts.storages[one] for one in filled)
    calls = []
    for row, name, above, turn in zip(rows.tolist(), names, outer.tolist(), step.tolist(), strict=True):
        if row == above:
            given, made = facts.given[place[row]], facts.made[place[row]]
            aimed = {facts.storages[given[-1]]} if given and not made and _may_write(name) else set()
            calls.append(
                Call(
                    row,
                    int(recorded.events.start_ns[row]),
                    name,
                    turn,
                    given,
                    made,
                    frozenset((writes[row] | aimed) - set(made)),
                )
            )
    return Uses(tuple(calls), facts.storages, facts.sizes, {row: facts.given[at] for row, at in place.items()})


def with_identity(trace: Trace, rows: Ints) -> Ints:
    """For each op row of the trace its counterpart's in the recording that `uses` speaks of, -1 for none."""
    if trace.stacks is None:
        return np.full(len(rows), -1, np.int64)
    return twins(trace, trace.stacks, rows)


@measure
def called_at(trace: Trace) -> Mapping[int, tuple[str, int]]:
    """Row of the recording with stacks → file and line of the script's own call that led to the op, where told."""
    facts = trace.facts.tensors if trace.facts else None
    if facts is None or trace.stacks is None or not facts.called_at:
        return {}
    lines = {row: facts.called_at[place] for row, place in _places(trace).items()}
    return {row: facts.lines[line] for row, line in lines.items() if line >= 0}


@measure
def _places(trace: Trace) -> Mapping[int, int]:
    """Row of the recording with stacks → place in the facts, for the ops whose start is theirs alone."""
    facts, recorded = trace.facts.tensors if trace.facts else None, trace.stacks
    if facts is None or recorded is None:
        return {}
    starts = facts.starts
    rows = recorded.rows("cpu_op")
    began = recorded.events.start_ns[rows] + recorded.base_ns
    known, first, count = np.unique(np.array(starts, np.int64), return_index=True, return_counts=True)
    _, same, often = np.unique(began, return_inverse=True, return_counts=True)
    at = np.minimum(np.searchsorted(known, began), len(known) - 1)
    alone = (known[at] == began) & (count[at] == 1) & (often[same] == 1) if len(known) else np.zeros(len(rows), bool)
    return dict(zip(rows[alone].tolist(), first[at[alone]].tolist(), strict=True))


def _written(name: str, given: tuple[int, ...]) -> tuple[int, ...]:
    if MANY_AT_ONCE.match(name):
        return given
    return given[:1] if IN_PLACE.match(name) and not SHAPE_ONLY.match(name) else ()


def _may_write(name: str) -> bool:
    """An op of a name without underscore that made nothing: a view, or it was told where to write (`out=`)."""
    return name.startswith("aten::") and not name.endswith("_") and not READS.match(name)
