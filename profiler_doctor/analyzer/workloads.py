"""What a project wants checked: the workloads, budgets and tolerances in its `[tool.profiler-doctor.check]` table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.settings import BadSettings, project_table

TIME = 0.05
"""A step may take 5 % longer: two processes of the same code differ by 1 %, and trials resolve about this much."""
BUDGET = "max_"
UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "": 1}
AMOUNT = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*")
TABLE = "tool.profiler-doctor.check"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One program to check, and what it is allowed."""

    name: str = ""
    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    step: str | None = None
    """Name of the range that marks its steps."""
    windows: int = 5
    window_steps: int = 1
    time: float | None = TIME
    """Share by which a step may take longer; None: time is not looked at."""
    forbid: tuple[str, ...] = ()
    """Codes of findings that must not be there."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Counter → the most it may be in a window."""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """Counter → share by which it may grow."""


KEYS = tuple(each.name for each in fields(Workload) if each.name not in ("name", "limits"))


def workloads(folder: Path) -> tuple[Workload, tuple[Workload, ...]]:
    """What holds for all, and the named workloads. Raises BadSettings with the file and the key."""
    found = project_table(folder)
    if found is None or "check" not in found[0]:
        return Workload(), ()
    table, file = found[0]["check"], found[1]
    if not isinstance(table, dict):
        raise BadSettings(f"{file}: [{TABLE}] must be a table.")
    named = table.get("workloads", {})
    if not isinstance(named, dict) or not all(isinstance(each, dict) for each in named.values()):
        raise BadSettings(f"{file}: [{TABLE}.workloads] must hold a table for each workload.")
    common = _read({key: value for key, value in table.items() if key != "workloads"}, Workload(), TABLE, file)
    return common, tuple(_named(name, values, common, file) for name, values in sorted(named.items()))


def _named(name: str, values: Mapping[str, object], common: Workload, file: Path) -> Workload:
    made = _read(values, replace(common, name=name), f"{TABLE}.workloads.{name}", file)
    if (made.script is None) == (made.module is None):
        raise BadSettings(f"{file}: [{TABLE}.workloads.{name}] needs a script or a module, and only one of them.")
    return made


def _read(values: Mapping[str, object], base: Workload, where: str, file: Path) -> Workload:
    """The workload with these values over those of `base`."""
    changes: dict[str, Any] = {}
    limits = dict(base.limits)
    for key, value in values.items():
        place = f"{file}: {where}.{key}"
        if key.startswith(BUDGET):
            limits[key.removeprefix(BUDGET)] = _amount(value, place)
        elif key in READERS:
            changes[key] = READERS[key](value, place)
        else:
            raise BadSettings(f"{place} is not known. There are {', '.join(KEYS)} and max_COUNTER.")
    if "tolerance" in changes:
        changes["tolerance"] = {**base.tolerance, **changes["tolerance"]}
    return replace(base, limits=limits, **changes)


def share(value: object, place: str) -> float:
    """A share as settings and options give it: `"5%"` or 0.05. Raises BadSettings."""
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < 10:
        raise BadSettings(f'{place} must be a share such as "5%" or 0.05, not {value!r}.')
    return number


def _time(value: object, place: str) -> float | None:
    return None if value is False else share(value, place)


def _amount(value: object, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match["unit"].lower() not in UNITS:
        raise BadSettings(f'{place} must be a number, or bytes such as "512 MB", not {value!r}.')
    return float(match["number"]) * UNITS[match["unit"].lower()]


def _word(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise BadSettings(f"{place} must be a string, not {value!r}.")
    return value


def _words(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadSettings(f"{place} must be a list of strings, not {value!r}.")
    return tuple(value)


def _count(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadSettings(f"{place} must be a whole number from 1 on, not {value!r}.")
    return value


def _several(value: object, place: str) -> int:
    if _count(value, place) < 2:
        raise BadSettings(f"{place} must be 2 or more: what is the same in all windows is a counter.")
    return _count(value, place)


def _shares(value: object, place: str) -> Mapping[str, float]:
    if not isinstance(value, dict):
        raise BadSettings(f"{place} must be a table of counters and shares, not {value!r}.")
    return {str(name): share(each, f"{place}.{name}") for name, each in value.items()}


READERS: Mapping[str, Callable[[object, str], object]] = {
    "script": _word,
    "module": _word,
    "arguments": _words,
    "step": _word,
    "windows": _several,
    "window_steps": _count,
    "time": _time,
    "forbid": _words,
    "tolerance": _shares,
}
