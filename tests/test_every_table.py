"""What must hold for every table: its name, its documentation, its columns, whatever the trace holds."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace, empty_trace

FOUND = find("profiler_doctor.analyzer.measures", Table)
TABLES = FOUND.items
REAL = (
    "tracelens_h100_bert_small",
    "hta_rec_rank0",
    "hta_cpu_only",
    "tracelens_mi300_vllm_graph",
    "particle_no_gpu_activity",
)
SHARES_DOCS = {"busy-by-stream": "busy", "copies": "gpu-work"}
"""Tables whose columns are those of another one and more."""
every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def test_every_measure_loads_and_names_are_taken_once() -> None:
    names = [table.name for table in TABLES]

    assert FOUND.broken == ()
    assert len(set(names)) == len(names) >= 25
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


@every_table
def test_its_docs_name_every_column(table: Table) -> None:
    docs = {other.name: other.doc for other in TABLES}
    told = table.doc + docs[SHARES_DOCS[table.name]] if table.name in SHARES_DOCS else table.doc

    missing = [column for column in _columns(empty_trace(""))[table.name] if not re.search(rf"\b{column}\b", told)]

    assert missing == []
    assert table.title.endswith(".") or ":" in table.title


@every_table
@pytest.mark.parametrize("name", REAL)
def test_its_columns_do_not_depend_on_the_trace(shared: Path, table: Table, name: str) -> None:
    frame = table.of(_read(shared / "traces" / f"{name}.json.gz"))

    assert frame.columns.tolist() == table.of(empty_trace("")).columns.tolist()
    assert frame.index.equals(pd.RangeIndex(len(frame)))


@every_table
@pytest.mark.parametrize("name", REAL)
def test_its_counts_and_nanoseconds_are_whole_numbers(shared: Path, table: Table, name: str) -> None:
    frame = table.of(_read(shared / "traces" / f"{name}.json.gz"))
    if frame.empty:
        return
    places = [column for column in ("row", "launch", "step") if column in frame.columns]
    counted = ("count", "calls", "flops", "bytes", "stream")
    whole = [column for column in frame.columns if column in counted or column.endswith(("_ns", "_bytes"))]
    whole = [column for column in whole if column not in ("roof_ns", "median_ns")]  # a quotient, a mean of two

    assert {column: str(frame[column].dtype) for column in whole} == dict.fromkeys(whole, "int64")
    assert {str(frame[column].dtype) for column in places} <= {"int32", "int64"}


def _columns(trace: Trace) -> dict[str, list[str]]:
    return {table.name: table.of(trace).columns.tolist() for table in TABLES}


_TRACES: dict[Path, Trace] = {}


def _read(path: Path) -> Trace:
    if path not in _TRACES:
        _TRACES[path] = read(path)
    return _TRACES[path]
