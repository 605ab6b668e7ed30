"""Which ops of a step work out what the step has already: the same op on the same numbers, told by their tensors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.identity import Call, Uses, uses, with_identity
from profiler_doctor.analyzer.measures.loops import forward_ops
from profiler_doctor.analyzer.measures.operands import ARGUMENTS, tensors
from profiler_doctor.analyzer.trace import Trace, measure

CHANCE = re.compile(
    r"rand|normal|bernoulli|dropout|multinomial|uniform|exponential|geometric|cauchy|poisson|empty|new_tensor|lift"
    r"|scaled_dot_product|rrelu|set_|resize|from_file|_rnn|lstm|gru"
)
"""Random, not filled, or told where the numbers are by something else than their tensors."""
COPIES = re.compile(r"^aten::(?:to|_to_copy|contiguous|float|half|bfloat16|double|type_as)$")
"""What gives the same numbers in another type or order, and is not asked to give memory of its own (as `clone` is)."""

Value = Hashable | None
"""What stands for a tensor's numbers; None: not known."""


@dataclass
class _Known:
    """What lies in each storage as the recording goes on."""

    uses: Uses
    recorded: Trace
    whole: dict[int, int]
    """Storage → elements of the largest tensor seen in it."""
    made: set[int] = field(default_factory=set)
    values: dict[int, Value] = field(default_factory=dict)
    constant: dict[int, bool] = field(default_factory=dict)

    def value(self, tensor: int) -> Value:
        """None for views of a part: which part is not known."""
        storage, size = self.uses.storages[tensor], self.uses.sizes[tensor]
        if size != self.whole[storage]:
            return None
        if storage in self.made or storage in self.values:
            return self.values.get(storage)
        return ("there before", tensor) if size > 1 else None  # a number may be anything by now


@measure
def made_again(trace: Trace) -> pd.DataFrame:
    """The outermost ops of the forward pass that give what an earlier op of the same step gave, in file order.

    Columns: row, kind (equal for equal results), constant (of factory ops and one-dimensional buffers alone), copy (of
    a tensor in another type or memory order). Results that are written to later are left out. Empty where identities
    were not recorded.
    """
    found, rows = _again(trace), forward_ops(trace)["row"].to_numpy(np.int64)
    there = with_identity(trace, rows)
    chosen = np.array([row in found for row in there.tolist()], np.bool_) if len(rows) else np.empty(0, np.bool_)
    told = [found[row] for row in there[chosen].tolist()]
    table = pd.DataFrame(told, columns=["kind", "constant", "copy"])
    table.insert(0, "row", rows[chosen])
    return table.sort_values("row", ignore_index=True)


@measure
def overwritten(trace: Trace) -> frozenset[int]:
    """Rows of the outermost ops of the forward pass whose result an op of the same recording writes to afterwards."""
    told, rows = uses(trace), forward_ops(trace)["row"].to_numpy(np.int64)
    if told is None:
        return frozenset()
    last_write = _last_writes(told)
    written = [
        call.row for place, call in enumerate(told.calls) if any(last_write.get(one, -1) > place for one in call.made)
    ]
    return frozenset(rows[np.isin(with_identity(trace, rows), np.array(written, np.int64))].tolist())


@measure
def same_in_every_step(trace: Trace) -> frozenset[int]:
    """Rows of the outermost copying ops that are given, in each step anew, a tensor that stays as it is.

    Empty where the recording that knows the tensors has one step.
    """
    told, rows = uses(trace), forward_ops(trace)["row"].to_numpy(np.int64)
    counted = {call.step for call in told.calls if call.step >= 0} if told else set()
    if told is None or len(counted) < 2:
        return frozenset()
    made = {storage for call in told.calls for storage in call.made}
    changed, largest = set(_last_writes(told)), _largest(told)
    seen: dict[tuple[str, int], set[int]] = defaultdict(set)
    copies = [call for call in told.calls if COPIES.match(call.name) and call.made and call.given]
    for call in copies:
        seen[call.name, call.given[0]].add(call.step)
    lasting = [
        call.row
        for call in copies
        if seen[call.name, call.given[0]] >= counted
        and told.storages[call.given[0]] not in made | changed
        and told.sizes[call.given[0]] == largest[told.storages[call.given[0]]]
    ]
    return frozenset(rows[np.isin(with_identity(trace, rows), np.array(lasting, np.int64))].tolist())


def _again(trace: Trace) -> dict[int, tuple[int, bool, bool]]:
    """By row of the recording with stacks: kind, constant, copy."""
    told, recorded = uses(trace), trace.stacks
    if told is None or recorded is None:
        return {}
    known = _Known(told, recorded, _largest(told))
    seen: dict[Value, int] = {}
    found: dict[int, tuple[int, bool, bool]] = {}
    forward, last_write = set(forward_ops(recorded)["row"].tolist()), _last_writes(told)
    codes = [recorded.events.text(argument) for argument in ARGUMENTS]
    rows = np.array([call.row for call in told.calls], np.int64)
    called = list(zip(*(column.at(rows, -1).tolist() for column in codes), strict=True))
    kinds: dict[Value, int] = {}
    for place, (call, signature) in enumerate(zip(told.calls, called, strict=True)):
        value, constant = _result(call, signature, known)
        kept = value is not None and all(last_write.get(storage, -1) <= place for storage in call.made)
        if kept and call.row in forward and seen.get(value) == call.step:
            kind = kinds.setdefault(value, len(kinds))
            found[call.row] = (kind, constant, bool(COPIES.match(call.name)))
        elif kept and call.row in forward:
            seen[value] = call.step
    return found


def _result(call: Call, signature: tuple[int, ...], known: _Known) -> tuple[Value, bool]:
    """What the op made, and whether of constants alone. Notes it for the ops after it."""
    given = [known.value(tensor) for tensor in call.given]
    pure = call.name.startswith("aten::") and None not in given and not CHANCE.search(call.name)
    value: Value = (call.name, signature, *given) if pure else None
    constant = pure and _is_constant(call, known)
    for storage in call.written:
        known.values[storage], known.constant[storage] = None, False
    for turn, storage in enumerate(call.made):
        known.made.add(storage)
        known.values[storage] = (hash(value), turn) if value is not None else None
        known.constant[storage] = constant
    return (value, constant) if call.made and not call.written else (None, False)


def _is_constant(call: Call, known: _Known) -> bool:
    """Made of no tensor at all, or of constants, and of buffers that a factory's result is joined with.

    A buffer has one dimension: of more it may be the program's input, which a benchmark gives again and again.
    """
    before = {known.uses.sizes[one] for one in call.given if known.uses.storages[one] not in known.made}
    told = [known.constant.get(one, False) for one in known.uses.storages_of(call.given) if one in known.made]
    wide = any(len(operand.dims) > 1 and operand.size in before for operand in tensors(known.recorded, call.row))
    return all(told) and (bool(told) or not before) and not wide


def _largest(told: Uses) -> dict[int, int]:
    largest: dict[int, int] = defaultdict(int)
    for storage, size in zip(told.storages, told.sizes, strict=True):
        largest[storage] = max(largest[storage], size)
    return largest


def _last_writes(told: Uses) -> dict[int, int]:
    """Storage → place of the last call that wrote to it."""
    return {storage: place for place, call in enumerate(told.calls) for storage in call.written}
