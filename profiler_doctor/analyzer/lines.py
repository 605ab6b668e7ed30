"""Which lines of a program do more than they did: both sides' lines lined up by what stands in them."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler_doctor.analyzer.capture.counted import Request, watched
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.gate import Place
from profiler_doctor.analyzer.measuring import Measured

MOST = 30
"""Places named; more would hide the first."""
LEAST_S = 15.0
OTHER_INPUTS = "shapes, types or layouts"


@dataclass(frozen=True)
class CodeLine:
    """A line of the script, with all lines of its file that read the same."""

    file: str
    """Relative to the folder that the program runs in, where it is inside."""
    code: str
    numbers: tuple[int, ...]
    ops: Mapping[str, int] = field(default_factory=dict)
    """Op → calls in a window."""
    signatures: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """As a baseline names it."""
        return f"{self.file}: {self.code}"

    @property
    def calls(self) -> int:
        """Of all ops."""
        return sum(self.ops.values())


def lines_of(side: Measured) -> tuple[CodeLine, ...]:
    """The lines of one side in the order in which a step reaches them; empty where that cannot be found out."""
    folder = side.folder / "lines"
    folder.mkdir(parents=True, exist_ok=True)
    before = side.recording.plan
    plan = replace(before, mode="lines", folder=str(folder), label="lines", steps=max(side.counters.window_steps, 1))
    request = replace(side.request, end_s=max(side.request.end_s, time.monotonic() + LEAST_S))
    told: list[dict[str, object]] = []
    with suppress(UserError, OSError, ValueError):  # where the lines are is worth a try, and no reason to fail
        watched(request, plan, "finding the lines")
        told = json.loads((folder / "lines.json").read_text(encoding="utf-8"))
    return tuple(_lines(told, _folder(request)))


def places(before: Sequence[CodeLine], after: Sequence[CodeLine]) -> tuple[Place, ...]:
    """The lines that call more ops or other ones than before, and those that are gone; where the calls are the same,
    the first line that is given something else."""
    one, two = ({line.key: line for line in side} for side in (before, after))
    found = [_place(one.get(key), line, "head") for key, line in two.items() if _differs(one.get(key), line)]
    found += [_place(line, None, "base") for key, line in one.items() if key not in two]
    if found:
        return tuple(sorted(found, key=lambda place: place.before - place.after)[:MOST])
    pairs = ((one[key], line) for key, line in two.items() if key in one)
    other = next(((old, new) for old, new in pairs if old.signatures != new.signatures), None)
    if other is None:
        return ()
    return (replace(_place(*other, "head"), ops=(OTHER_INPUTS,)),)


def places_since(stored: Mapping[str, int], after: Sequence[CodeLine]) -> tuple[Place, ...]:
    """The same against a baseline, which holds only how many ops each line calls."""
    found = [
        Place(
            file=line.file,
            line=line.numbers[-1],
            code=line.code,
            before=stored.get(line.key, 0),
            after=line.calls,
            ops=tuple(sorted(line.ops)),
        )
        for line in after
        if line.calls != stored.get(line.key, 0)
    ]
    return tuple(sorted(found, key=lambda place: place.before - place.after)[:MOST])


def _differs(before: CodeLine | None, after: CodeLine) -> bool:
    return before is None or before.ops != after.ops


def _place(before: CodeLine | None, after: CodeLine | None, side: str) -> Place:
    known = after or before
    assert known is not None
    old, new = (line.ops if line else {} for line in (before, after))
    changed = sorted(op for op in {**old, **new} if old.get(op, 0) != new.get(op, 0))
    added = [number for number in known.numbers if after and before and number not in before.numbers]
    return Place(
        file=known.file,
        line=(added or known.numbers)[-1],
        code=known.code,
        before=sum(old.values()),
        after=sum(new.values()),
        ops=tuple(changed),
        side="head" if side == "head" else "base",
    )


def _lines(told: Sequence[Mapping[str, object]], folder: Path) -> Iterator[CodeLine]:
    """Lines of one file that read the same become one: which of two such lines is which no text tells."""
    groups: dict[tuple[str, str], list[Mapping[str, object]]] = defaultdict(list)
    for line in told:
        if line["file"]:
            groups[relative_to(str(line["file"]), folder), str(line["code"])].append(line)
    for (file, code), same in groups.items():
        ops: dict[str, int] = defaultdict(int)
        for line in same:
            calls = line["ops"]
            assert isinstance(calls, dict)
            for op, count in calls.items():
                ops[str(op)] += int(count)
        numbers = tuple(sorted(int(str(line["line"])) for line in same))
        yield CodeLine(file, code, numbers, dict(ops), tuple(str(line["signature"]) for line in same))


def relative_to(file: str, folder: Path) -> str:
    """A file's path as seen from `folder`, where it is inside."""
    return os.path.relpath(file, folder) if file.startswith(f"{folder}{os.sep}") else file


def _folder(request: Request) -> Path:
    return (request.target.folder or Path.cwd()).resolve()
