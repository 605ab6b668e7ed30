"""Which tensors the ops of a recording took, and what memory they made: the trace that is written has shapes alone.

torch numbers every storage anew where memory is recorded too, even one that lies where another one lay before.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import Place, is_own_name
from profiler_doctor.analyzer.facts import TensorFacts

MOST_EVENTS = 600_000
"""Looking at one takes about a microsecond."""
MOST_OPS = 30_000
"""About 1 MB of text, and more ops than two steps of a large model have."""
OP = "TorchOp"
ALLOCATION = "Allocation"
PYTHON_CALL = "PyCall"
CALLS = (PYTHON_CALL, "PyCCall")
NOWHERE = ("", 0)


def as_json(profile: Any) -> str:
    """`tensors.json`, of a recording that has stopped."""
    facts = tensor_facts(profile)
    return json.dumps(None if facts is None else asdict(facts))


def tensor_facts(profile: Any) -> TensorFacts | None:
    """What each op of a recording (after its stop) was given and made; None where torch does not tell, or too much."""
    with contextlib.suppress(Exception):  # the tree is torch's own affair
        results = profile.profiler.kineto_results
        if len(results.events()) > MOST_EVENTS:
            return None
        seen = _Seen()
        for event in results.experimental_event_tree():
            _look(event, seen)
        if 0 < len(seen.calls) <= MOST_OPS:
            return seen.facts()
    return None


@dataclass
class _Seen:
    calls: list[tuple[int, tuple[int, ...], tuple[int, ...], int]] = field(default_factory=list)
    """Start, tensors given, storages made, place in `lines`."""
    lines: dict[Place, int] = field(default_factory=dict)
    tensors: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Storage, place of torch's own object, elements: an object's place is used again by a later view."""

    def number(self, tensor: Any) -> int:
        key = (tensor.allocation_id, tensor.impl_ptr, prod(tensor.sizes))
        return self.tensors.setdefault(key, len(self.tensors))

    def line(self, place: Place) -> int:
        return -1 if place == NOWHERE else self.lines.setdefault(place, len(self.lines))

    def facts(self) -> TensorFacts:
        calls = sorted(self.calls)
        return TensorFacts(
            starts=tuple(start for start, *_ in calls),
            given=tuple(given for _, given, _, _ in calls),
            made=tuple(made for _, _, made, _ in calls),
            storages=tuple(storage for storage, _, _ in self.tensors),
            sizes=tuple(size for _, _, size in self.tensors),
            lines=tuple(self.lines),
            called_at=tuple(line for *_, line in calls),
        )


def _look(root: Any, seen: _Seen) -> None:
    """Note the op and those inside it, in any order; recursion would not do for Python's deep stacks."""
    made: dict[int, set[int]] = {}
    waiting, order = [(root, -1, NOWHERE)], []
    while waiting:
        event, above, around = waiting.pop()
        at = _called_at(event, around)
        order.append((event, above, at))
        waiting += [(child, len(order) - 1, at) for child in event.children]
    for place in range(len(order) - 1, -1, -1):  # what is inside an op comes after it in `order`
        event, above, at = order[place]
        kind, mine = event.tag.name, made.pop(place, set())
        if kind == ALLOCATION:
            size, number = event.extra_fields.alloc_size, event.extra_fields.allocation_id
            mine = {number if size > 0 else -number - 1} if number is not None else set()
        elif kind == OP:
            given = tuple(_given(event.extra_fields.inputs, seen))
            mine = {number for number in mine if number >= 0 and -number - 1 not in mine}
            seen.calls.append((event.start_time_ns, given, tuple(sorted(mine)), seen.line(at)))
        if above >= 0 and mine:
            made.setdefault(above, set()).update(mine)


def _called_at(event: Any, around: Place) -> Place:
    """The innermost line of the script's own that calls what is inside this event, given that of what is around it."""
    kind = event.tag.name
    if kind not in CALLS:
        return around
    fields = event.extra_fields
    if kind == PYTHON_CALL and is_own_name(fields.callsite.file_name):
        return NOWHERE  # which of its lines is told by the calls that it makes
    caller = fields.caller
    return (caller.file_name, caller.line_number) if is_own_name(caller.file_name) else around


def _given(inputs: Any, seen: _Seen) -> list[int]:
    """The tensors among an op's arguments, those in lists too, in order."""
    found: list[int] = []
    for one in inputs:
        if isinstance(one, list | tuple):
            found += _given(one, seen)
        elif getattr(one, "allocation_id", None) is not None:
            found.append(seen.number(one))
    return found
