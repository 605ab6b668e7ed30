"""Large traces made of small real ones: the same events over and over, later each time and with ids of their own."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from isal import igzip

SOURCES = {"cuda": "hta_a100_nccl_resnet", "shapes": "tracelens_h100_qwen05b"}
"""What is measured → the real trace it is made of: training on a GPU; inference with shapes and stacks."""
IDS = "id|External id|correlation|Ev Idx|Record function id|Sequence number|Python id|Python parent id|Python module id"
SHIFTED = re.compile(rf'("(?:ts|{IDS})"\s*:\s*)(\d+(?:\.\d+)?)|(ProfilerStep#)(\d+)')
"""What differs from one copy to the next: times, ids, and the number of the step."""
ONCE = ("Trace", None)
"""Categories of what a recording holds once: its own span, and the names of processes and threads."""
PAUSE_NS = 1_000_000
"""From the end of one copy to the start of the next."""


@dataclass(frozen=True)
class Value:
    """A number in the text that grows from copy to copy by `by` (a time in ns, else an id)."""

    first: int
    by: int
    time: bool


@dataclass(frozen=True)
class Pattern:
    """A real trace cut into what stays and what is shifted."""

    head: str
    once: str
    parts: tuple[str | Value, ...]
    tail: str


def write_scaled(source: Path, target: Path, size: int) -> int:
    """Write a .json.gz of about `size` bytes of text, in the layout of `source`. Returns the size of the text."""
    pattern = _pattern(gzip.decompress(source.read_bytes()).decode())
    written = 0
    with igzip.open(target, "wb", compresslevel=2) as file:
        for text in _texts(pattern, size):
            written += file.write(text.encode())
    return written


def _texts(pattern: Pattern, size: int) -> Iterator[str]:
    yield pattern.head + pattern.once
    written, copy = len(pattern.head) + len(pattern.once), 0
    while written < size:
        text = "".join(_shifted(pattern.parts, copy))
        yield ("," if copy or pattern.once else "") + text
        written, copy = written + len(text), copy + 1
    yield pattern.tail


def _shifted(parts: Iterable[str | Value], copy: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            value = part.first + copy * part.by
            yield f"{value // 1000}.{value % 1000:03}" if part.time else str(value)


def _pattern(text: str) -> Pattern:
    begin = re.search(r'"traceEvents"\s*:\s*\[', text)
    assert begin is not None
    events, end = _events(text, begin.end())
    repeated = [written for written, event in events if event.get("cat") not in ONCE]
    once = ",".join(written for written, event in events if event.get("cat") in ONCE)
    span = _span_ns([event for _, event in events if event.get("cat") not in ONCE])
    return Pattern(text[: begin.end()], once, tuple(_parts(",".join(repeated), span)), text[end:])


def _events(text: str, start: int) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Each event as it is written, with the blanks before it, and as it is read; and where the list ends."""
    reader, found, place = json.JSONDecoder(parse_float=Decimal), [], start
    while True:
        brace = re.compile(r"[\s,]*").match(text, place).end()  # type: ignore[union-attr]
        if text[brace] == "]":
            return found, place
        event, end = reader.raw_decode(text, brace)
        found.append((text[place:brace].lstrip(",") + text[brace:end], event))
        place = end


def _span_ns(events: list[dict[str, Any]]) -> int:
    first = min(Decimal(event["ts"]) for event in events)
    last = max(Decimal(event["ts"]) + Decimal(event.get("dur", 0)) for event in events)
    return int((last - first) * 1000) + PAUSE_NS


def _parts(text: str, span_ns: int) -> Iterator[str | Value]:
    largest: dict[str, int] = {}
    found = list(SHIFTED.finditer(text))
    for value in found:
        if not _is_time(value):
            name, number = _named(value)
            largest[name] = max(largest.get(name, 0), number)
    place = 0
    for value in found:
        time = _is_time(value)
        name, number = _named(value)
        yield text[place : value.end(1) if value[1] else value.end(3)]
        by = span_ns if time else largest[name] + 1 if number else 0  # an id of 0 means none, in every copy
        yield Value(int(Decimal(value[2]) * 1000) if time else number, by, time)
        place = value.end()
    yield text[place:]


def _is_time(value: re.Match[str]) -> bool:
    return value[1] is not None and value[1].startswith('"ts"')


def _named(value: re.Match[str]) -> tuple[str, int]:
    """What kind of id a number is, and the number; ids that refer to each other are of one kind."""
    if value[1] is None:
        return value[3], int(value[4])
    if _is_time(value):
        return "ts", 0
    name = value[1].split('"')[1].removeprefix("Python parent ").removeprefix("Python ")
    return name.replace("correlation", "id"), int(value[2])
