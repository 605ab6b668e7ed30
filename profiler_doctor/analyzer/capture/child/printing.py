"""What a call prints: a treatment that replays a recording of the model does not print it any more."""

from __future__ import annotations

import re
import sys
from types import TracebackType
from typing import Any

NUMBER = re.compile(r"-?\d[\d.]*(?:[eE][-+]?\d+)?")
STREAMS = ("stdout", "stderr")
MOST_CHARACTERS = 10_000


class Printing:
    """While it lasts, what is written to `sys.stdout` and `sys.stderr` is noted, and passed on where `aloud`."""

    def __init__(self, aloud: bool) -> None:
        self._aloud = aloud
        self._parts: list[str] = []
        self._before: dict[str, Any] = {}

    def __enter__(self) -> Printing:
        for name in STREAMS:
            self._before[name] = getattr(sys, name)
            setattr(sys, name, _Noted(self._before[name], self._parts, self._aloud))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, stream in self._before.items():
            if isinstance(getattr(sys, name), _Noted):  # else somebody has put his own there
                setattr(sys, name, stream)

    @property
    def text(self) -> str:
        """What was written, without its numbers: rounding may show in them, and time, and places in memory."""
        return NUMBER.sub("#", "".join(self._parts)[:MOST_CHARACTERS]).strip()


class _Noted:
    def __init__(self, stream: Any, parts: list[str], aloud: bool) -> None:
        self._stream, self._parts, self._aloud = stream, parts, aloud

    def write(self, text: str) -> int:
        self._parts.append(text)
        return int(self._stream.write(text)) if self._aloud and self._stream is not None else len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
