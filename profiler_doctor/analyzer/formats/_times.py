"""From the microseconds of a chrome trace to whole nanoseconds, without losing one."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

NEVER = 1 << 62
"""Nanoseconds from here on (146 years) are no time of a trace: an overflow, or the wrapped difference of two clocks."""


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
