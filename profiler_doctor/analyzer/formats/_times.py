"""From the microseconds of a chrome trace to whole nanoseconds, without losing one.

A double of less than 2**43 microseconds lies within 0.49 ns of the decimal it was written as (its neighbours are at
most 2**-10 µs apart), so splitting off the whole microseconds and rounding the rest gives the written nanosecond back.
Times relative to a base of at most three months stay below that (7.95e12 against 8.79e12). Absolute times with decimals
do not: they are read as Decimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.trace import Ints

NEVER = 1 << 62
"""Nanoseconds from here on (146 years) are no time of a trace: an overflow, or the wrapped difference of two clocks."""
ABSENT = -(1 << 62)
"""Stands for a missing number in a list of numbers; a power of two, so it survives as a double."""
EXACT_BELOW = float(1 << 43)
"""Microseconds up to which a double still tells every nanosecond."""


class NeedsDecimals(Exception):
    """These times were decoded as doubles and are too large for that; read them again as Decimal."""


def exact_ns(microseconds: object) -> int | None:
    """Nanoseconds of an int, Decimal, float or numeric text; None for what is no number or cannot be a time.

    Digits below the nanosecond are rounded to the nearest one; kineto writes none.
    """
    if isinstance(microseconds, bool):
        return None
    if isinstance(microseconds, int):
        value = microseconds * 1000
        return value if abs(value) < NEVER else None
    if isinstance(microseconds, str | float | Decimal):
        return _from_decimal(microseconds)
    return None


def _from_decimal(written: str | float | Decimal) -> int | None:
    try:
        number = Decimal(written)
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > 18:
        return None
    value = int((number * 1000).to_integral_value())
    return value if abs(value) < NEVER else None


def exact_ns_of_all(microseconds: Sequence[Any]) -> tuple[Ints, Ints]:
    """Nanoseconds of a list of int, float (ABSENT where missing) or Decimal, and the places of what is no time.

    Places without a number, or with one that is no time, hold ABSENT. Raises NeedsDecimals.
    """
    values = np.array(microseconds)
    if values.dtype.kind not in "if":
        return _one_by_one(microseconds)
    missing = values == ABSENT
    if values.dtype.kind == "i":
        wrong = ~missing & (np.abs(values) >= NEVER // 1000)
        return np.where(missing | wrong, ABSENT, values * 1000), np.flatnonzero(wrong)
    if np.any(~missing & ~(np.abs(values) < EXACT_BELOW)):
        if any(type(value) is float and not abs(value) < EXACT_BELOW for value in microseconds):
            raise NeedsDecimals
        return _one_by_one(microseconds)
    nanoseconds = _nanoseconds(np.where(missing, 0, values))
    return np.where(missing, ABSENT, nanoseconds), np.empty(0, np.int64)


def ns_of_numbers(microseconds: Sequence[int | float]) -> tuple[Ints, Ints]:
    """As `exact_ns_of_all`, for ints and floats alone: faster where none is too large for a double."""
    try:
        values = np.fromiter(microseconds, np.float64, len(microseconds))
    except OverflowError:
        return exact_ns_of_all(microseconds)
    missing = values == ABSENT
    values[missing] = 0
    if not np.all(np.abs(values) < EXACT_BELOW):
        return exact_ns_of_all(microseconds)
    return np.where(missing, ABSENT, _nanoseconds(values)), np.empty(0, np.int64)


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Exact below EXACT_BELOW: the fraction of the whole microsecond is split off before it is rounded."""
    whole = np.floor(microseconds)
    return whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)


def _one_by_one(microseconds: Sequence[Any]) -> tuple[Ints, Ints]:
    found, wrong = np.full(len(microseconds), ABSENT), []
    for place, value in enumerate(microseconds):
        if value is None or (type(value) is int and value == ABSENT):
            continue
        exact = exact_ns(value)
        if exact is None:
            wrong.append(place)
        else:
            found[place] = exact
    return found, np.array(wrong, np.int64)
