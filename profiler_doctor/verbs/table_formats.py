"""The rows of a table as text, CSV, JSON or Parquet: whole numbers to the last digit in every one."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.reports.wording import plain

WIDEST = 60
"""Characters of a text that the text format shows; C++ kernel names run to thousands."""


class NoParquet(UserError):
    """Parquet was asked for and the library that writes it is not installed."""


def as_text(frame: pd.DataFrame) -> bytes:
    """Columns side by side, numbers to the right with their digits in threes, texts shortened; NaN is "-"."""
    columns = [[plain(name), *_shown(frame.iloc[:, place])] for place, name in enumerate(frame.columns)]
    numeric = [_is_number(frame.iloc[:, place]) for place in range(len(columns))]
    widths = [max(map(len, cells)) for cells in columns]
    sides = list(zip(columns, widths, numeric, strict=True))
    padded = [[cell.rjust(width) if right else cell.ljust(width) for cell in cells] for cells, width, right in sides]
    lines = ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def as_csv(frame: pd.DataFrame) -> bytes:
    """A header line and one line a row; NaN is empty."""
    return frame.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace")


def as_json(frame: pd.DataFrame) -> bytes:
    """A list of objects, one a row and one a line; NaN is null."""
    columns = [_plain(frame.iloc[:, place]) for place in range(frame.shape[1])]
    names = [str(name) for name in frame.columns]
    rows = (json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) for row in zip(*columns, strict=True))
    return ("[\n" + ",\n".join(rows) + "\n]\n").encode()


def as_parquet(frame: pd.DataFrame) -> bytes:
    """An Apache Parquet file. Raises NoParquet without pyarrow."""
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except ImportError as error:
        raise NoParquet(
            "Parquet needs the package pyarrow, which is not installed: `pip install pyarrow`, or choose --format csv."
        ) from error
    return buffer.getvalue()


FORMATS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "text": as_text,
    "csv": as_csv,
    "json": as_json,
    "parquet": as_parquet,
}


def _is_number(column: pd.Series[Any]) -> bool:
    return column.dtype.kind in "iuf"


def _shown(column: pd.Series[Any]) -> list[str]:
    if column.dtype.kind in "iu":
        return [f"{value:,}" for value in column.tolist()]
    if column.dtype.kind == "f":
        return ["-" if math.isnan(value) else f"{value:,.6g}" for value in column.tolist()]
    return [plain(value, WIDEST) for value in column.tolist()]


def _plain(column: pd.Series[Any]) -> list[object]:
    """As JSON values: integers stay integers, NaN and infinities become null."""
    values = column.tolist()
    if column.dtype.kind == "f":
        return [value if math.isfinite(value) else None for value in values]
    return values
