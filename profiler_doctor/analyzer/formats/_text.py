"""The inflated text of a file as a window that moves on: what is read goes, what is not yet complete stays."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.formats._scan import EVENT_KEYS

CHUNK_BYTES = 1 << 20
"""How much text is decoded at once; memory beside the columns is a few times this."""
BOUNDARY = re.compile(rb'\}\s*(,)\s*\{\s*"(?:' + EVENT_KEYS.encode() + rb')"\s*:')


class Window:
    """Bytes not yet read, and where the file goes on."""

    def __init__(self, path: Path) -> None:
        self.file = Inflated(path)
        self.pieces: Iterator[bytes] = iter(self.file)
        self.text = bytearray()
        self.at_end = False
        self.passed = 0
        """Bytes of text that were read and let go."""

    def fill(self, size: int = CHUNK_BYTES) -> None:
        """Take more of the file until the window holds at least `size` bytes, or the file ends."""
        while len(self.text) < size and not self.at_end:
            piece = next(self.pieces, None)
            if piece is None:
                self.at_end = True
            else:
                self.text += piece

    def drop(self, count: int) -> None:
        """Let go of the first `count` bytes."""
        try:
            del self.text[:count]
        except BufferError:  # somebody still looks at them
            self.text = self.text[count:]
        self.passed += count

    def last_comma(self) -> int | None:
        """The place of the last comma between two events, None where the window holds no two."""
        size = 1 << 14
        while True:
            begin = max(len(self.text) - size, 0)
            found = None
            for found in BOUNDARY.finditer(self.text, begin):  # noqa: B007  # the last match is wanted
                pass
            if found is not None:
                return found.start(1)
            if begin == 0:
                return None
            size *= 8

    def decoded(self) -> tuple[str, bytes, int]:
        """The window as text, the bytes of a last character that is not all there, and how many bytes were no text."""
        reader = codecs.getincrementaldecoder("utf-8")("replace")
        text = reader.decode(bytes(self.text), final=self.at_end)
        wrong = text.count("\ufffd") - self.text.count(b"\xef\xbf\xbd")
        return text, reader.getstate()[0], wrong

    def replace(self, text: str, rest: bytes) -> None:
        """Go on with what `decoded` gave and was not used."""
        before = len(self.text)
        self.text = bytearray(text.encode("utf-8", "replace") + rest)
        self.passed += before - len(self.text)

    def rest(self, limit: int) -> str:
        """Everything to the end of the file as text, but no more than `limit` bytes."""
        self.fill(limit)
        return self.decoded()[0]
