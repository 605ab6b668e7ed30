"""The wire form of protocol buffers, read without their runtime: a walk for long messages, a march for many short ones.

A profile is three kinds of nested messages and nothing else is needed of the format, so a decoder of our own costs less
than a dependency with generated classes, and it can take all events of a line at once, in numpy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.trace import Bools, Ints

Raw = npt.NDArray[np.uint8]
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
PADDING = 16
"""Zero bytes behind the data, so that a number may be looked for at its very end (the longest takes 10)."""
MOST_FIELDS = 1024
"""Fields of one short message that are read; an event of a profile has a few dozen at most."""


@dataclass(frozen=True)
class Entry:
    """One field of one message. `start` and `end` enclose its content; `value` is its number where it is one."""

    number: int
    wire: int
    value: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Entries:
    """Fields of many messages, message by message in their own order: `owner` is the index of the message."""

    owner: Ints
    number: Ints
    wire: Ints
    value: npt.NDArray[np.uint64]
    start: Ints
    end: Ints

    def of(self, number: int) -> Entries:
        """The fields with one number."""
        return self.where(self.number == number)

    def where(self, chosen: Bools) -> Entries:
        """The chosen fields."""
        return Entries(*(getattr(self, name)[chosen] for name in ("owner", "number", "wire", "value", "start", "end")))

    def last_value(self, count: int, default: int = 0) -> Ints:
        """For each of `count` messages the value of its last field here, which is the one that counts."""
        found = np.full(count, default, np.int64)
        found[self.owner] = self.value.view(np.int64)
        return found


def padded(content: bytes) -> Raw:
    """The bytes of a file as the functions here take them."""
    return np.frombuffer(content + bytes(PADDING), np.uint8)


def walk(data: Raw, start: int, end: int, trouble: Counter[str]) -> Iterator[Entry]:
    """The fields of one message, for messages with many.

    Where it breaks off or is damaged it ends early, and `trouble["broken"]` counts one.
    """
    view = data.data
    try:
        while start < end:
            key, start = _varint(view, start, end)
            value, start, stop = _content(view, key & 7, start, end)
            if stop > end:
                trouble["broken"] += 1
            yield Entry(key >> 3, key & 7, value, start, min(stop, end))
            start = stop
    except ValueError:
        trouble["broken"] += 1


def march(data: Raw, starts: Ints, ends: Ints, trouble: Counter[str]) -> Entries:
    """The fields of many short messages: one round reads the next field of every message that has one left.

    A message that is damaged or runs over its end keeps the fields before the fault, and `trouble["broken"]` counts it;
    one that is not short keeps its first MOST_FIELDS.
    """
    at, owner = np.array(starts, np.int64), np.arange(len(starts))
    rounds: list[tuple[npt.NDArray[np.generic], ...]] = []
    while len(owner) and len(rounds) < MOST_FIELDS:
        open_ = at < ends[owner]
        at, owner = at[open_], owner[open_]
        key, begin = _varints(data, at)
        wire = (key & np.uint64(7)).astype(np.int64)
        value, behind = _varints(data, np.minimum(begin, len(data) - PADDING))
        begin, stop = _extent(wire, value, begin, behind)
        good = (stop <= ends[owner]) & np.isin(wire, (VARINT, FIXED64, BYTES, FIXED32)) & (key >> np.uint64(3) > 0)
        found = (owner, (key >> np.uint64(3)).astype(np.int64), wire, value, begin, stop)
        rounds.append(tuple(part[good] for part in found))
        trouble["broken"] += int(np.count_nonzero(~good))
        at, owner = stop[good], owner[good]
    return _joined(rounds)


def text(data: Raw, start: int, end: int) -> str:
    """A text field; bytes that are no UTF-8 are replaced."""
    return data[start:end].tobytes().decode("utf-8", "replace")


def doubles(data: Raw, starts: Ints) -> npt.NDArray[np.float64]:
    """The 64-bit fields at `starts`, as the floating-point numbers that they are."""
    return np.ascontiguousarray(data[starts[:, None] + np.arange(8)]).view(np.float64).reshape(-1)


def _content(view: memoryview, wire: int, start: int, end: int) -> tuple[int, int, int]:
    """Number, start and end of a field's content. Raises ValueError for a wire type that is none."""
    if wire == VARINT:
        value, stop = _varint(view, start, end)
        return value, start, stop
    if wire == BYTES:
        length, start = _varint(view, start, end)
        return 0, start, start + length
    if wire in (FIXED64, FIXED32):
        return 0, start, start + (8 if wire == FIXED64 else 4)
    raise ValueError(f"wire type {wire}")


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise ValueError(f"a number breaks off at byte {at}")


def _varints(data: Raw, at: Ints) -> tuple[npt.NDArray[np.uint64], Ints]:
    """The numbers at many places, and where each ends."""
    value, behind = np.zeros(len(at), np.uint64), np.array(at, np.int64)
    left = np.arange(len(at))
    for shift in range(0, 70, 7):
        byte = data[behind[left]]
        value[left] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[left] += 1
        left = left[byte >= 0x80]
        if not len(left):
            break
    return value, behind


def _extent(wire: Ints, value: npt.NDArray[np.uint64], begin: Ints, behind: Ints) -> tuple[Ints, Ints]:
    """Where the content of each field starts and ends, by its wire type."""
    length = np.minimum(value, np.uint64(1 << 62)).astype(np.int64)
    start = np.where(wire == BYTES, behind, begin)
    stop = np.select([wire == VARINT, wire == BYTES, wire == FIXED64], [behind, behind + length, begin + 8], begin + 4)
    return start, stop


def _joined(rounds: list[tuple[npt.NDArray[np.generic], ...]]) -> Entries:
    if not rounds:
        nothing = np.empty(0, np.int64)
        return Entries(nothing, nothing, nothing, np.empty(0, np.uint64), nothing, nothing)
    parts = [np.concatenate(parts) for parts in zip(*rounds, strict=True)]
    order = np.argsort(parts[0], kind="stable")
    return Entries(*(part[order] for part in parts))
