"""What a project has written into the `[tool.profiler-doctor]` table of its pyproject.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from profiler_doctor.analyzer.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`select`, `ignore` (codes, families, names) and `rules.CODE.THRESHOLD = number`."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


KEYS = ("select", "ignore", "rules", "check")
"""What our table may hold; `check` is read by `workloads`."""


class BadSettings(UserError):
    """The settings table holds something that we cannot use."""


def settings(folder: Path) -> Settings:
    """The settings of the nearest pyproject.toml at or above `folder` that has our table; none is fine.

    A key that we do not know is named on standard error: it changes nothing, and may be a slip. Raises BadSettings with
    the file and the key for what is not usable.
    """
    found = project_table(folder)
    return Settings() if found is None else _checked(*found)


def project_table(folder: Path) -> tuple[Mapping[str, object], Path] | None:
    """Our table in the nearest pyproject.toml at or above `folder` that has it, and that file; None: there is none.

    Raises BadSettings for a file that is not TOML.
    """
    for place in (folder, *folder.resolve().parents):
        table = _table(place / "pyproject.toml")
        if table is not None:
            return table, place / "pyproject.toml"
    return None


def _table(file: Path) -> Mapping[str, object] | None:
    try:
        content = file.read_bytes()
    except OSError:
        return None
    try:
        tool = tomllib.loads(content.decode("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{file} is not valid TOML: {error}. Mend it, or run from another folder.") from error
    table = tool.get("profiler-doctor") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadSettings(f"{file}: [tool.profiler-doctor] must be a table.")
    return table


def _checked(table: Mapping[str, object], file: Path) -> Settings:
    for key in table.keys() - set(KEYS):
        sys.stderr.write(f"profiler-doctor: {file}: {_unknown(key)}\n")
    rules = table.get("rules", {})
    if not isinstance(rules, dict):
        raise BadSettings(f"{file}: [tool.profiler-doctor.rules] must be a table of rule codes.")
    return Settings(
        select=_words(table.get("select", []), "select", file),
        ignore=_words(table.get("ignore", []), "ignore", file),
        limits={str(code): _limits(values, str(code), file) for code, values in rules.items()},
    )


def _unknown(key: str) -> str:
    near = get_close_matches(key, KEYS, n=1)
    meant = f"Is it {near[0]}?" if near else f"There are {', '.join(KEYS)}."
    return f"tool.profiler-doctor.{key} is not known and changes nothing. {meant}"


def _words(value: object, key: str, file: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadSettings(f"{file}: tool.profiler-doctor.{key} must be a list of rule codes, families or names.")
    return tuple(value)


def _limits(values: object, code: str, file: Path) -> Mapping[str, float]:
    if not isinstance(values, dict):
        raise BadSettings(f"{file}: [tool.profiler-doctor.rules.{code}] must be a table of thresholds.")
    for name, number in values.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise BadSettings(f"{file}: tool.profiler-doctor.rules.{code}.{name} must be a number, not {number!r}.")
    return {str(name): float(number) for name, number in values.items()}
