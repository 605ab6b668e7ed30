"""The usual text of events into columns by the tokenizer in C, where it was built; what is odd it leaves alone."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np

from profiler_doctor.analyzer.formats._arguments import Array, Piece
from profiler_doctor.analyzer.formats._columns import Columns, Core
from profiler_doctor.analyzer.formats._growing import Growing
from profiler_doctor.analyzer.formats._text import Window
from profiler_doctor.analyzer.native import accelerator
from profiler_doctor.analyzer.trace import Codes

NATIVE = accelerator("profiler_doctor.analyzer.formats._ktok")
PHASE, CATEGORY, NAME, PID, TID = range(5)
"""Places of an event's own keys among the tokenizer's keys (native/ktok/ktok.h); its arguments come behind them."""
NO_PLACES = np.empty(0, np.int64)


def tokens(columns: Columns) -> Tokens | None:
    """What reads the usual events faster than Python can, where it is here."""
    return Tokens(columns, NATIVE.Tokenizer()) if NATIVE else None


class Tokens:
    """Hands text to the tokenizer and its rows to the columns.

    The tokenizer numbers each text as it stands in the file; here is kept which code of the columns each number means.
    """

    def __init__(self, columns: Columns, tokenizer: Any) -> None:
        self.columns, self.tokenizer = columns, tokenizer
        self.meant: dict[int, Growing] = defaultdict(lambda: Growing(np.int32))
        self.threads = Growing(np.int32)
        self.parts: dict[int, list[str]] = {PID: [], TID: []}

    def read(self, window: Window) -> bool | None:
        """Read the window's events up to one that is cut off or odd.

        Whether the list was closed; None where another way must go on. The columns are complete then.
        """
        assert NATIVE is not None
        moved = 0
        while True:
            status, taken = self.tokenizer.read(window.text)
            window.drop(taken)
            moved += taken
            if status != NATIVE.FULL:
                break
            self.flush()
        if status == NATIVE.CUT and moved and not window.at_end:
            return False
        self.flush()
        if status != NATIVE.CLOSED:
            return None
        window.drop(1)
        return True

    def flush(self) -> None:
        """Hand what was read so far to the columns."""
        assert NATIVE is not None
        rows, core, keys, spellings, threads, cells = self.tokenizer.drain()
        self._learn(keys, spellings)
        self.threads.append(np.array([self._thread(*pair) for pair in threads], np.int32))
        if not rows:
            return
        first = np.int32(self.columns.length)
        self.columns.append(self._core(core))
        filled = [(self.columns.argument(keys[slot]), slot, *cell) for slot, *cell in cells]
        for argument, slot, kind, places, values in filled:
            where = np.frombuffer(places, np.int32) + first
            if kind == NATIVE.SPELLED:
                argument.pieces.append(Piece(where, self._codes(slot, values), texts=True))
            else:
                numbers = np.frombuffer(values, np.int64 if kind == NATIVE.WHOLE else np.float64)
                argument.pieces.append(Piece(where, numbers))
        for argument, *_ in filled:
            argument.gather()

    def _learn(self, keys: list[str], spellings: list[tuple[int, bytes]]) -> None:
        """Look up the texts that are new."""
        new: dict[int, list[bytes]] = defaultdict(list)
        for slot, written in spellings:
            new[slot].append(written)
        for slot, those in new.items():
            if slot in self.parts:
                self.parts[slot] += map(_text, those)
            else:
                self.meant[slot].append(np.array(self._looked_up(slot, keys[slot], those), np.int32))

    def _looked_up(self, slot: int, key: str, written: list[bytes]) -> list[int]:
        own: dict[int, dict[Any, int]] = {
            PHASE: self.columns.phases, CATEGORY: self.columns.categories, NAME: self.columns.names
        }  # fmt: skip
        if slot in own:
            return [own[slot][_text(one)] for one in written]
        argument = self.columns.argument(key)
        return [argument.texts[_text(one)] if one.startswith(b'"') else argument.json_texts[one] for one in written]

    def _thread(self, *parts: tuple[int, int]) -> int:
        """The code of a thread; its process and itself are each a number, a text or nothing."""
        assert NATIVE is not None
        pid, tid = (
            value if kind == NATIVE.WHOLE else self.parts[slot][value] if kind == NATIVE.SPELLED else None
            for slot, (kind, value) in zip((PID, TID), parts, strict=True)
        )
        return self.columns.threads[pid, tid]

    def _core(self, core: tuple[bytes, ...]) -> Core:
        phase, category, name, thread, start, duration = core
        return Core(
            phase=self._codes(PHASE, phase, self.columns.phases, None).astype(np.uint8),
            category=self._codes(CATEGORY, category, self.columns.categories, None),
            name=self._codes(NAME, name, self.columns.names, ""),
            thread=self.threads.values[np.frombuffer(thread, np.int32)],
            start_ns=np.frombuffer(start, np.int64),
            dur_ns=np.frombuffer(duration, np.int64),
            no_start=NO_PLACES,
            no_duration=NO_PLACES,
        )

    def _codes(self, slot: int, numbers: bytes, known: dict[Any, int] | None = None, missing: Any = None) -> Codes:
        """The columns' codes; -1 is an event without that key, as `known` has it under `missing`."""
        wanted = np.frombuffer(numbers, np.int32)
        meant: Array = self.meant[slot].values
        if known is not None and wanted.min() < 0:
            meant = np.append(meant, np.int32(known[missing]))
        return meant[wanted]


def _text(written: bytes) -> str:
    text: str = json.loads(written, strict=False) if b"\\" in written else written[1:-1].decode()
    return text
