"""The text of a trace file, inflated where it is compressed, whatever its name says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isal import isal_zlib

DAMAGED: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub takes the class for an instance
GZIP = b"\x1f\x8b"
GZIP_ONLY = 31
"""zlib's number for a gzip header and trailer around the largest window."""
READ_BYTES = 1 << 18
LEAST_BYTES = 1 << 9
MOST_BYTES = 1 << 20
"""Inflated bytes that are handed out at once, however well they were packed."""
BOMB_BYTES, BOMB_RATIO = 1 << 25, 200
"""Real traces pack 10 to 60 times; what is large and packs better than this is made to fill memory."""


class Inflated:
    """Iterates over a file's bytes; `broken` says afterwards why the compressed stream ended too early, if it did."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = ""

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            first = file.read(READ_BYTES)
            pieces = _chain(first, iter(lambda: file.read(READ_BYTES), b""))
            yield from self._members(pieces) if first.startswith(GZIP) else (piece for piece in pieces if piece)

    def _members(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        member, begun, taken, given = isal_zlib.decompressobj(wbits=GZIP_ONLY), False, 0, 0
        for piece in _sliced(pieces):
            left = piece
            taken += len(piece)
            while left:
                if given > BOMB_BYTES and given > BOMB_RATIO * taken:
                    self.broken = f"its first {taken} compressed bytes inflate to more than {given}, as no trace does"
                    return
                if not begun and not left.startswith(GZIP[: len(left)]):
                    return  # padding after the last member, as tar and some uploaders leave it
                begun = True
                try:
                    text = member.decompress(left, MOST_BYTES)
                except (DAMAGED, ValueError) as error:
                    self.broken = f"its compressed data is damaged: {error}"
                    return
                given += len(text)
                yield text
                left = member.unused_data if member.eof else member.unconsumed_tail
                if member.eof:
                    member, begun = isal_zlib.decompressobj(wbits=GZIP_ONLY), False
        if begun:
            self.broken = "its compressed data ends too early"


def _sliced(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Smaller pieces for the inflater, which loses the whole piece in which it meets damage."""
    for piece in pieces:
        size = max(len(piece) // 64, LEAST_BYTES)
        yield from (piece[place : place + size] for place in range(0, len(piece), size))


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def first_bytes(path: Path, count: int = 1 << 17) -> bytes:
    """The first inflated bytes of a file, enough for a format to know its own."""
    found = bytearray()
    for piece in Inflated(path):
        found += piece
        if len(found) >= count:
            break
    return bytes(found[:count])
