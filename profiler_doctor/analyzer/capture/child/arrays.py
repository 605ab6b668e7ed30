"""Tensors made from lists of NumPy arrays, number by number: each call is a range in the recording.

Only while something is recorded does a function of ours stand in `torch.tensor`'s place, and not at all where the
program compiles: a compiler would take it for another function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import Place, own_place
from profiler_doctor.analyzer.capture.child.ranges import mirror
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.facts import ArraysFacts

CALLS = ("tensor", "as_tensor")
DEPTH = 3
"""Lists of lists of lists of arrays are looked into, no deeper ones."""


class Arrays:
    """What was made of lists of arrays so far."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._found: dict[tuple[str, Place], tuple[int, int, int]] = {}
        self._undo: list[Undo] = []

    def recording(self, begins: bool) -> None:
        """A recording begins or ends."""
        for undo in self._undo:
            undo()
        self._undo = [replaced(self._torch, name, self._listening) for name in CALLS] if begins and _plain() else []

    def facts(self) -> tuple[ArraysFacts, ...]:
        """Each line once, in the order in which they were first seen."""
        return tuple(
            ArraysFacts(
                range_name=_range_name(call),
                call=call,
                file=place[0],
                line=place[1],
                calls=calls,
                arrays=arrays,
                elements=elements,
            )
            for (call, place), (calls, arrays, elements) in self._found.items()
        )

    def _listening(self, make: Callable[..., Any]) -> Callable[..., Any]:
        call = f"torch.{make.__name__}"

        @wraps(make)
        def made(*args: Any, **more: Any) -> Any:
            data = args[0] if args else more.get("data")
            if not isinstance(data, list | tuple) or mirror.open is None or not (size := _arrays_in(data)):
                return make(*args, **more)
            self._note(call, own_place(sys._getframe(1)), size)
            opened = mirror.open(_range_name(call))
            try:
                return make(*args, **more)
            finally:
                mirror.close(opened)

        return made

    def _note(self, call: str, place: Place, size: tuple[int, int]) -> None:
        calls = self._found.get((call, place), (0, 0, 0))[0]
        self._found[call, place] = (calls + 1, *size)


def _range_name(call: str) -> str:
    return f"{call} of a list of arrays"


def _plain() -> bool:
    """Whether nothing was compiled yet."""
    compiler = sys.modules.get("torch._dynamo.utils")
    return compiler is None or not compiler.counters["frames"]


def _arrays_in(data: Any, depth: int = DEPTH) -> tuple[int, int] | None:
    """How many arrays a nested list holds, and how many numbers they hold; None where it is no such list."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not data:
        return None
    if isinstance(data[0], numpy.ndarray | numpy.generic):
        return len(data), len(data) * int(data[0].size)
    if depth and isinstance(data[0], list | tuple):
        inner = _arrays_in(data[0], depth - 1)
        return inner and (len(data) * inner[0], len(data) * inner[1])
    return None
