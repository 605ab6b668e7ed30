"""Results of checks over time, in one SQLite file, and how much step times scatter where nothing changed."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from profiler_doctor.analyzer.counters import Value
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.gate import Check

VERSION = 1
TABLE = """
CREATE TABLE IF NOT EXISTS results (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL, revision TEXT NOT NULL, workload TEXT NOT NULL, against TEXT NOT NULL,
    exit_code INTEGER NOT NULL, ratio REAL, step_ns INTEGER, circumstances TEXT NOT NULL, counters TEXT NOT NULL
)
"""
WAIT_S = 20.0
"""For another job that is writing."""
LEAST_RATIOS = 5
MAD_TO_SD = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""


class UnusableHistory(UserError):
    """The file is no history that this version can use."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One workload of one check."""

    at: str
    """ISO time."""
    revision: str
    workload: str
    against: str
    exit_code: int
    ratio: float | None
    """Head over base by the race's deciding clock; None where time was not compared."""
    step_ns: int | None
    circumstances: Mapping[str, object]
    counters: Mapping[str, Value]


def results_of(check: Check, at: datetime, revision: str) -> tuple[Result, ...]:
    """What a check adds to a history; workloads of which nothing was counted add nothing."""
    return tuple(
        Result(
            at=at.isoformat(timespec="seconds"),
            revision=revision,
            workload=workload.name,
            against=workload.against,
            exit_code=int(workload.exit_code),
            ratio=workload.time.ratio,
            step_ns=workload.time.after_ns,
            circumstances=check.environment,
            counters=workload.counters,
        )
        for workload in check.workloads
        if workload.counters
    )


def add(path: Path, results: Sequence[Result]) -> None:
    """Add results to the file, all or none; it is made where it is missing. Raises UnusableHistory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path) as database, database:
        database.execute(TABLE)
        database.execute(f"PRAGMA user_version = {VERSION}")
        database.executemany(
            "INSERT INTO results (at, revision, workload, against, exit_code, ratio, step_ns, circumstances, counters)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [_row(result) for result in results],
        )


def load(path: Path) -> tuple[Result, ...]:
    """All results in the order in which they came. Raises UnusableHistory."""
    if not path.is_file():
        raise UnusableHistory(f"There is no history {path}: `profiler-doctor check … --history {path}` begins one.")
    names = "at, revision, workload, against, exit_code, ratio, step_ns, circumstances, counters"
    with _opened(path) as database:
        rows = database.execute(f"SELECT {names} FROM results ORDER BY id").fetchall()  # noqa: S608  # names are ours
    return tuple(
        Result(
            at=row[0],
            revision=row[1],
            workload=row[2],
            against=row[3],
            exit_code=row[4],
            ratio=row[5],
            step_ns=row[6],
            circumstances=json.loads(row[7]),
            counters=json.loads(row[8]),
        )
        for row in rows
    )


def noise(results: Sequence[Result]) -> float | None:
    """What ratios scatter by where both sides did the same: a standard deviation, as a share; None: too few to tell.

    Checks that passed, of one workload each; the median absolute deviation, so that a loss that slipped through does
    not count as noise.
    """
    logs = [math.log(result.ratio) for result in results if result.ratio and result.exit_code == 0]
    if len(logs) < LEAST_RATIOS:
        return None
    middle = median(logs)
    return MAD_TO_SD * median(abs(each - middle) for each in logs)


def _row(result: Result) -> tuple[object, ...]:
    texts = (json.dumps(dict(each), sort_keys=True, default=str) for each in (result.circumstances, result.counters))
    head = (result.at, result.revision, result.workload, result.against)
    return (*head, result.exit_code, result.ratio, result.step_ns, *texts)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise UnusableHistory(f"The history {path} was written by a newer profiler-doctor: update it.")
            yield database
    except sqlite3.Error as error:
        raise UnusableHistory(f"{path} cannot be used as a history: {error}. Name another file.") from error
