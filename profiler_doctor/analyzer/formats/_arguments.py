"""One argument of all events that have it, gathered piece by piece and settled into a column at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.formats._growing import Growing
from profiler_doctor.analyzer.formats._terms import NUMBERS

Array = npt.NDArray[Any]
EXACT_IN_FLOAT = 1 << 53
"""Whole numbers from here on do not all fit a double; a column that mixes them with fractions stays text."""
NUMPY = {int: np.int64, float: np.float64}
HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,15}")
NO_TEXT = "\x00"
"""Stands for an absent text in a list of texts; its code is -1 in every table."""


class Texts(dict[str, int]):
    """Text → code, in order of first appearance; asking for a new text adds it."""

    def __init__(self) -> None:
        super().__init__({NO_TEXT: -1})

    def __missing__(self, text: str) -> int:
        code = len(self) - 1
        self[text] = code
        return code

    @property
    def table(self) -> tuple[str, ...]:
        """The texts in the order of their codes."""
        return tuple(self)[1:]


class JsonTexts(dict[bytes, int]):
    """JSON as it stands in the file → code of its text in `texts`; each spelling is looked at once.

    Strings lose their quotes; lists and objects are written in one layout, whatever the file's.
    """

    def __init__(self, texts: Texts) -> None:
        super().__init__({b"": -1, b"null": -1})
        self.texts = texts

    def __missing__(self, written: bytes) -> int:
        code = self.texts[json_text(json.loads(written, strict=False))]
        self[written] = code
        return code


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that ascend, and their values: numbers, or (`texts`) codes into the argument's own table."""

    rows: Array
    values: Array
    texts: bool = False

    @property
    def kind(self) -> str:
        """ "t" for texts, else numpy's letter for whole numbers or fractions."""
        return "t" if self.texts else self.values.dtype.kind


def joined(pieces: Sequence[Piece]) -> Piece:
    """Several pieces of one kind as one; their rows ascend again."""
    if len(pieces) == 1:
        return pieces[0]
    rows = np.concatenate([piece.rows for piece in pieces])
    values = np.concatenate([piece.values for piece in pieces])
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows, kind="stable")
        rows, values = rows[order], values[order]
    return Piece(rows, values, pieces[0].texts)


@dataclass
class Argument:
    """One argument so far: the pieces of the latest events, and all before them by kind. `Texts` are shared by all."""

    name: str
    texts: Texts = field(default_factory=Texts)
    pieces: list[Piece] = field(default_factory=list)
    gathered: dict[str, tuple[Growing, Growing]] = field(default_factory=dict)
    json_texts: JsonTexts = field(init=False)

    def __post_init__(self) -> None:
        self.json_texts = JsonTexts(self.texts)

    def add_values(self, rows: Sequence[int], values: Sequence[object]) -> None:
        """Values as a JSON reader gives them: None and what is not finite are absent, lists become JSON text."""
        of_kind: dict[type[Any], tuple[list[int], list[Any]]] = {}
        for row, written in zip(rows, values, strict=True):
            value = float(written) if isinstance(written, Decimal) else written
            if value is None or (isinstance(value, float) and not np.isfinite(value)):
                continue
            where, found = of_kind.setdefault(type(value) if is_number(value) else str, ([], []))
            where.append(row)
            found.append(value)
        for kind, (where, found) in of_kind.items():
            if kind is str:
                codes = [self.texts[json_text(value)] for value in found]
                self.pieces.append(Piece(np.array(where, np.int32), np.array(codes, np.int32), texts=True))
            else:
                self.pieces.append(Piece(np.array(where, np.int32), np.array(found, NUMPY[kind])))

    def gather(self) -> None:
        """Put the latest pieces behind those before them. Later ones must be of later events."""
        for kind in {piece.kind for piece in self.pieces}:
            whole = joined([piece for piece in self.pieces if piece.kind == kind])
            if kind not in self.gathered:
                self.gathered[kind] = Growing(whole.rows.dtype), Growing(whole.values.dtype)
            for growing, values in zip(self.gathered[kind], (whole.rows, whole.values), strict=True):
                growing.append(values)
        self.pieces = []

    def settle(self) -> int:
        """Make all that was gathered numbers or all texts. Returns how many values were left out, being no numbers.

        What the measures rely on as a number (`NUMBERS`) becomes one even where the file has it as text; any other
        argument does where every text in it is a number.
        """
        self.pieces = [Piece(rows.values, values.values, kind == "t") for kind, (rows, values) in self.gathered.items()]
        self.gathered = {}
        numbers = [piece for piece in self.pieces if not piece.texts]
        texts = [piece for piece in self.pieces if piece.texts]
        if texts and (numbers or self.name in NUMBERS):
            parsed = self._parsed(texts)
            if parsed is not None:
                self.pieces = numbers = [*numbers, *parsed]
                lost = sum(len(piece.rows) for piece in texts) - sum(len(piece.rows) for piece in parsed)
                return lost if _fits(numbers) else lost + self._write_numbers_as_text()
        if numbers and (texts or not _fits(numbers)):
            self._write_numbers_as_text()
        return 0

    def _parsed(self, pieces: Sequence[Piece]) -> list[Piece] | None:
        """Texts as numbers; None where that would lose something that is not certainly meant as a number."""
        table = [_number(text, self.name in NUMBERS) for text in self.texts.table]
        used = np.unique(np.concatenate([piece.values for piece in pieces]))
        if self.name not in NUMBERS and any(table[code] is None for code in used):
            return None
        whole = all(table[code] is None or isinstance(table[code], int) for code in used)
        values = np.array([value or 0 for value in table], np.int64 if whole else np.float64)
        known = np.array([value is not None for value in table], np.bool_)
        return [Piece(piece.rows[known[piece.values]], values[piece.values[known[piece.values]]]) for piece in pieces]

    def _write_numbers_as_text(self) -> int:
        self.pieces = [piece if piece.texts else self._as_text(piece) for piece in self.pieces]
        return 0

    def _as_text(self, piece: Piece) -> Piece:
        codes = [self.texts[json_text(value)] for value in piece.values.tolist()]
        return Piece(piece.rows, np.array(codes, np.int32), texts=True)


def json_text(value: object) -> str:
    """A text as it is; everything else as its JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def is_number(value: object) -> bool:
    """Whether a value fits a numeric column: an int of 64 bits or a float, and no bool."""
    fits = isinstance(value, float) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)
    return fits and not isinstance(value, bool)


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def _number(text: str, hexadecimal: bool) -> int | float | None:
    """What a text says as a number; ROCm writes some streams as 0x0."""
    if hexadecimal and text.startswith("0x"):
        return int(text, 16) if HEXADECIMAL.fullmatch(text) else None
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if is_number(value) and np.isfinite(value) else None
    return None


def _fits(pieces: Sequence[Piece]) -> bool:
    whole = [piece.values for piece in pieces if piece.values.dtype.kind == "i"]
    return len(whole) == len(pieces) or all(np.abs(values).max(initial=0) < EXACT_IN_FLOAT for values in whole)
