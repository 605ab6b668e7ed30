"""`profiler-doctor table`: every table in four formats, to a pipe or a file, and a sentence where that cannot be."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from profiler_doctor.verbs.table import every_table
from profiler_doctor.verbs.table_formats import as_csv, as_json, as_parquet, as_text
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder

BIG = 4_458_676_524_595_135_001
"""More digits than a double holds."""


def table(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "profiler_doctor", "table", *words], capture_output=True, input=stdin, check=False
    )


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": ["gemm", "a\x1b[31mb", '=1,\n"x"'],
            "time_ns": [BIG, 0, -1],
            "ratio": [0.1, np.nan, np.inf],
            "linked": [True, False, True],
        }
    )


def test_text_lines_columns_up_and_lets_no_name_control_the_terminal() -> None:
    lines = as_text(frame()).decode().splitlines()

    assert len(lines) == 4
    assert "\x1b" not in lines[2]
    assert lines[1].split()[:2] == ["gemm", f"{BIG:,}"]
    assert len({len(line.rstrip()) - len(line.rstrip().split()[-1]) for line in lines[:1]}) == 1
    assert lines[2].split()[-2:] == ["-", "False"]


def test_csv_keeps_every_digit_and_quotes_what_must_be() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(frame()).decode())))

    assert [row["time_ns"] for row in rows] == [str(BIG), "0", "-1"]
    assert [row["name"] for row in rows] == frame()["name"].tolist()
    assert [row["ratio"] for row in rows] == ["0.1", "", "inf"]


def test_json_keeps_every_digit_and_has_null_for_what_is_no_number() -> None:
    rows = json.loads(as_json(frame()))

    assert [row["time_ns"] for row in rows] == [BIG, 0, -1]
    assert [row["ratio"] for row in rows] == [0.1, None, None]
    assert [row["linked"] for row in rows] == [True, False, True]
    assert [row["name"] for row in rows] == frame()["name"].tolist()


def test_an_empty_table_is_empty_in_every_format() -> None:
    empty = frame().head(0)

    assert as_text(empty).decode().split() == ["name", "time_ns", "ratio", "linked"]
    assert as_csv(empty).decode() == "name,time_ns,ratio,linked\n"
    assert json.loads(as_json(empty)) == []


def test_parquet_is_written_where_it_can_be() -> None:
    pytest.importorskip("pyarrow")
    read_again = pd.read_parquet(io.BytesIO(as_parquet(frame())))

    assert read_again["time_ns"].tolist() == [BIG, 0, -1]


def test_without_pyarrow_parquet_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('hidden by the test')", encoding="utf-8")
    trace = TraceBuilder().op("aten::mm", 0, 10).write(tmp_path)
    command = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from profiler_doctor.cli import main; main()"
    words = [sys.executable, "-c", command, "table", "ops", str(trace), "--out", str(tmp_path / "ops.parquet")]

    ended = subprocess.run(words, capture_output=True, check=False)

    assert ended.returncode == 2
    assert b"pip install pyarrow" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_without_a_name_every_table_is_listed_with_its_columns() -> None:
    ended = table()

    assert ended.returncode == 0
    for name in every_table():
        assert f"\n{name}\n" in "\n" + ended.stdout.decode()
    assert "exposed_ns" in ended.stdout.decode()


def test_without_a_trace_the_columns_are_explained() -> None:
    ended = table("queues")

    assert ended.returncode == 0
    assert "mean_depth (weighted by time" in ended.stdout.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kernel", "x.json"), "Did you mean kernels"),
        (("kernels", "x.json", "--format", "xml"), "Choose from text, csv, json, parquet"),
        (("kernels", "no/such/file.json"), "no/such/file.json"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(words: tuple[str, ...], said: str) -> None:
    ended = table(*words)

    assert ended.returncode == 2
    assert said in ended.stderr.decode()
    assert ended.stdout == b""


def test_a_file_gets_the_format_that_its_name_ends_in(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 10).op("aten::add", 20, 3).write(tmp_path)

    ended = table("ops", str(trace), "--out", str(tmp_path / "deep" / "ops.json"), "--top", "1")

    assert (ended.returncode, ended.stdout) == (0, b"")
    assert [row["name"] for row in json.loads((tmp_path / "deep" / "ops.json").read_text())] == ["aten::mm"]


def test_columns_that_point_at_events_say_what_those_are_called(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::relu", 0, 10).launch("relu_kernel", at=(2, 3), on_gpu=(20, 5))

    row = json.loads(table("gpu-work", str(builder.write(tmp_path)), "--format", "json").stdout)[0]

    assert (row["op_name"], row["launch_name"]) == ("aten::relu", "cudaLaunchKernel")


def test_several_traces_are_ranks_and_each_row_says_which(tmp_path: Path) -> None:
    for rank in (0, 1):
        TraceBuilder(top={"distributedInfo": {"rank": rank}}).op(f"aten::op{rank}", 0, 10).write(
            tmp_path, f"r{rank}.json"
        )

    rows = json.loads(table("ops", str(tmp_path), "--format", "json").stdout)

    assert [(row["rank"], row["name"]) for row in rows] == [(0, "aten::op0"), (1, "aten::op1")]


def test_the_kernels_of_a_real_trace_are_all_there_from_a_pipe_too(shared: Path) -> None:
    path = shared / "traces" / "hta_a100_nccl_resnet.json.gz"
    events, _ = plain.load(path)
    expected: dict[str, int] = {}
    for event in events:
        if event.get("ph") == "X" and plain.category(event) == "kernel":
            expected[event["name"]] = expected.get(event["name"], 0) + plain.ns(event["dur"])

    ended = table("kernels", "-", "--format", "csv", stdin=path.read_bytes())

    rows = csv.DictReader(io.StringIO(ended.stdout.decode()))
    assert {row["name"]: int(row["time_ns"]) for row in rows} == expected
