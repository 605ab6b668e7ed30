"""One argument of the events that have it, gathered from whole columns or single records, and settled at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.trace import Column, Ints, interned

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass
class Values:
    """Pieces of a growing argument: rows with numbers, rows with texts."""

    rows: list[Ints] = field(default_factory=list)
    numbers: list[Numbers] = field(default_factory=list)
    text_rows: list[Ints] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, rows: Ints, numbers: Numbers) -> None:
        """Append numbers."""
        self.rows.append(rows)
        self.numbers.append(numbers)

    def add_texts(self, rows: Ints, texts: Sequence[str]) -> None:
        """Append texts, one a row."""
        self.text_rows.append(rows)
        self.texts.extend(texts)

    def add_mixed(self, rows: Sequence[int], values: Sequence[object]) -> None:
        """Append values as a JSON reader or a database gives them; what is no number is kept as JSON text."""
        plain = [isinstance(value, int | float) and not isinstance(value, bool) and _fits(value) for value in values]
        number = np.array(plain, np.bool_)
        where = np.array(rows, np.int64)
        if number.any():
            chosen = [value for value, is_number in zip(values, plain, strict=True) if is_number]
            fractions = any(isinstance(value, float) for value in chosen)
            self.add(where[number], np.array(chosen, np.float64) if fractions else np.array(chosen, np.int64))
        others = [value for value, is_number in zip(values, plain, strict=True) if not is_number]
        if others:
            self.add_texts(where[~number], [value if isinstance(value, str) else json_text(value) for value in others])

    def add_column(self, column: Column, first_row: int) -> None:
        """Append a finished column whose row 0 is the event `first_row`."""
        if column.table is None:
            self.add(column.rows + first_row, column.values)
        else:
            self.add_texts(column.rows + first_row, [column.table[code] for code in column.values.tolist()])

    def column(self) -> Column:
        """The finished column; of several values at one row the last counts. Numbers beside texts become text."""
        numbers = [number for piece in self.numbers for number in piece.tolist()] if self.texts else []
        if self.texts:
            rows = np.concatenate([*self.rows, *self.text_rows])
            values, table = interned([*(json_text(number) for number in numbers), *self.texts])
            return _settled(rows, values, table)
        if not self.rows:
            return Column(np.empty(0, np.int64), np.empty(0, np.int64), None)
        return _settled(np.concatenate(self.rows), np.concatenate(self.numbers), None)


def json_text(value: object) -> str:
    """A value as JSON in one layout."""
    return json.dumps(value, default=str)


def _settled(rows: Ints, values: npt.NDArray[np.generic], table: tuple[str, ...] | None) -> Column:
    order = np.argsort(rows, kind="stable")
    rows, values = rows[order].astype(np.int64), values[order]
    last = np.append(rows[1:] != rows[:-1], np.ones(min(len(rows), 1), np.bool_))
    return Column(rows[last], values[last], table)


def _fits(number: int | float) -> bool:
    return isinstance(number, float) or -(1 << 63) <= number < 1 << 63
