"""The text of a trace file, inflated where it is compressed, whatever its name says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isal import isal_zlib

DAMAGED: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub takes the class for an instance
GZIP = b"\x1f\x8b"
READ_BYTES = 1 << 18
"""How much of the file is taken at once; inflated it is a few MB at most for text that packs 10 to 20 times."""


class Inflated:
    """Iterates over a file's bytes; `broken` says afterwards why the compressed stream ended too early, if it did."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = ""

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            first = file.read(READ_BYTES)
            pieces = _chain(first, iter(lambda: file.read(READ_BYTES), b""))
            if first.startswith(GZIP):
                yield from self._members(pieces)
            else:
                yield from (piece for piece in pieces if piece)

    def _members(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        member = isal_zlib.decompressobj(wbits=31)
        begun = False
        for piece in pieces:
            left = piece
            while left:
                if not begun and not left.startswith(GZIP[: len(left)]):
                    return  # padding after the last member, as tar and some uploaders leave it
                begun = True
                try:
                    text = member.decompress(left)
                except (DAMAGED, ValueError) as error:
                    self.broken = f"its compressed data is damaged ({error})"
                    return
                if text:
                    yield text
                left = member.unused_data
                if member.eof:
                    member, begun = isal_zlib.decompressobj(wbits=31), False
        if begun:
            self.broken = "its compressed data ends too early"


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
