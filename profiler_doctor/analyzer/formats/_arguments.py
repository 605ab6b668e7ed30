"""One argument of all events that have it, gathered piece by piece and settled into a column at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.formats._terms import NUMBERS
from profiler_doctor.analyzer.trace import Column

Array = npt.NDArray[Any]
EXACT_IN_FLOAT = 1 << 53
"""Whole numbers from here on do not all fit a double; a column that mixes them with fractions stays text."""
NOTHING = -1
"""The code of an absent text."""


class Texts(dict[str, int]):
    """Text → code, in order of first appearance; asking for a new text adds it."""

    def __missing__(self, text: str) -> int:
        code = len(self)
        self[text] = code
        return code


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that ascend, and their values: numbers, or (`texts`) codes into the argument's own table."""

    rows: Array
    values: Array
    texts: bool = False


@dataclass
class Argument:
    """All pieces of one argument; `column` turns them into what the trace holds."""

    name: str
    texts: Texts = field(default_factory=Texts)
    pieces: list[Piece] = field(default_factory=list)

    def add_values(self, rows: Sequence[int], values: Sequence[object]) -> None:
        """Values as a JSON reader gives them; None is an absent value, lists and objects become JSON text."""
        for numbers in (True, False):
            chosen = [place for place, value in enumerate(values) if value is not None and _is_number(value) is numbers]
            if chosen:
                self._add_alike([rows[place] for place in chosen], [values[place] for place in chosen], numbers)

    def _add_alike(self, rows: Sequence[int], values: Sequence[Any], numbers: bool) -> None:
        if not numbers:
            codes = [self.texts[json_text(value)] for value in values]
            self.pieces.append(Piece(np.array(rows, np.int32), np.array(codes, np.int32), texts=True))
        else:
            kind = np.int64 if all(isinstance(value, int) for value in values) else np.float64
            self.pieces.append(Piece(np.array(rows, np.int32), np.array(values, kind)))

    def column(self) -> tuple[Column, int]:
        """The finished column, and how many values had to be left out because they are no numbers."""
        numbers = [piece for piece in self.pieces if not piece.texts]
        texts = [piece for piece in self.pieces if piece.texts]
        parsed, lost = self._parsed(texts) if texts and (numbers or self.name in NUMBERS) else (None, 0)
        if parsed is not None:
            numbers, texts = [*numbers, *parsed], []
        if numbers and (texts or not _fits(numbers)):
            texts, numbers = [*texts, *(self._as_text(piece) for piece in numbers)], []
        return _joined(texts or numbers, tuple(self.texts) if texts else None), lost

    def _parsed(self, pieces: Sequence[Piece]) -> tuple[list[Piece] | None, int]:
        """Texts as numbers; None where that would lose something that is not certainly meant as a number."""
        table = [_number(text) for text in self.texts]
        used = np.unique(np.concatenate([piece.values for piece in pieces]))
        if self.name not in NUMBERS and any(table[code] is None for code in used):
            return None, 0
        whole = all(table[code] is None or isinstance(table[code], int) for code in used)
        values = np.array([value or 0 for value in table], np.int64 if whole else np.float64)
        known = np.array([value is not None for value in table], np.bool_)
        kept = [Piece(piece.rows[known[piece.values]], values[piece.values[known[piece.values]]]) for piece in pieces]
        lost = sum(len(before.rows) - len(after.rows) for before, after in zip(pieces, kept, strict=True))
        return kept, lost

    def _as_text(self, piece: Piece) -> Piece:
        codes = [self.texts[json_text(value)] for value in piece.values.tolist()]
        return Piece(piece.rows, np.array(codes, np.int32), texts=True)


def json_text(value: object) -> str:
    """A text as it is; everything else as its JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_number(value: object) -> bool:
    fits = isinstance(value, float) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)
    return fits and not isinstance(value, bool)


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if _is_number(value) and value == value else None
    return None


def _fits(pieces: Sequence[Piece]) -> bool:
    whole = [piece.values for piece in pieces if piece.values.dtype.kind == "i"]
    return len(whole) == len(pieces) or all(np.abs(values).max(initial=0) < EXACT_IN_FLOAT for values in whole)


def _joined(pieces: Sequence[Piece], table: tuple[str, ...] | None) -> Column:
    if not pieces:
        return Column(np.empty(0, np.int64), np.empty(0, np.int64), table)
    rows = np.concatenate([piece.rows for piece in pieces]).astype(np.int64)
    values = np.concatenate([piece.values for piece in pieces])
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows, kind="stable")
        rows, values = rows[order], values[order]
    return Column(rows, values, table)
