"""Every real trace, against a plain reading of the same file: no event, no argument and no nanosecond is lost."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.measures.device import busy_by_stream
from profiler_doctor.analyzer.measures.totals import tables, totals
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.totals import Totals
from profiler_doctor.analyzer.trace import Trace
from tests import plain_reference
from tests.conftest import SHARED

pytestmark = pytest.mark.usefixtures("reader")
TRACES = sorted((SHARED / "traces").glob("**/*.json.gz"))
KINETO = [path for path in TRACES if not path.name.startswith(("invalid_", "ort_"))]
TRUTH: dict[str, Any] = json.loads((SHARED / "ground_truth.json").read_text()) if SHARED.is_dir() else {}
TEXT_AS_NUMBER = {"stream": lambda text: int(text, 16) if text.startswith("0x") else int(text), "bytes": int}
RENAMED = {
    "external id": "External id",
    "Profiler Event Index": "Ev Idx",
    "theoretical occupancy %": "est. achieved occupancy %",
}

of_each_kineto_trace = pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)


@of_each_kineto_trace
def test_every_event_is_read_as_it_stands(path: Path) -> None:
    events, _ = plain_reference.load(path)
    found = read(path).events
    assert len(found) == len(events)
    assert [chr(code) for code in found.phase] == [event["ph"] for event in events]
    assert found.names_at(range(len(events))) == [event["name"] for event in events]
    assert [found.category_of(row) for row in range(len(events))] == [plain_reference.category(e) for e in events]
    threads = [found.threads[code] for code in found.thread]
    assert threads == [(event.get("pid", ""), event.get("tid", "")) for event in events]
    assert found.start_ns.tolist() == [max(plain_reference.ns(event.get("ts")), 0) for event in events]
    assert found.dur_ns.tolist() == [plain_reference.ns(event.get("dur")) for event in events]


@of_each_kineto_trace
def test_every_argument_is_read_as_it_stands(path: Path) -> None:
    events, _ = plain_reference.load(path)
    wanted: dict[str, dict[int, object]] = {}
    for row, event in enumerate(events):
        for name, value in (*event.get("args", {}).items(), ("id", event.get("id"))):
            if value is not None:
                wanted.setdefault(RENAMED.get(name, name), {})[row] = value
    arguments = read(path).events.arguments
    assert set(arguments) == set(wanted)
    for name, column in arguments.items():
        assert column.rows.tolist() == list(wanted[name])
        values = column.values.tolist() if column.table is None else [column.table[code] for code in column.values]
        assert values == [_as_kept(value, column.table is not None, name) for value in wanted[name].values()], name


def _as_kept(value: object, as_text: bool, name: str) -> object:
    """A number in a numeric column; in a text column texts as they are and everything else as JSON."""
    if as_text:
        return value if isinstance(value, str) else json.dumps(value, default=float)
    if isinstance(value, str):
        return TEXT_AS_NUMBER[name](value) if name in TEXT_AS_NUMBER else int(value)
    return float(value) if isinstance(value, Decimal) else value


@of_each_kineto_trace
def test_what_stands_around_the_events_is_kept(path: Path) -> None:
    _, around = plain_reference.load(path)
    trace = read(path)
    assert trace.metadata == json.loads(json.dumps(around, default=float))
    assert trace.base_ns == around.get("baseTimeNanoseconds", 0)


@of_each_kineto_trace
def test_the_totals_are_those_of_the_plain_reading(path: Path) -> None:
    events, _ = plain_reference.load(path)
    wanted = plain_reference.totals(events)
    found = totals(read(path))
    assert _plain(found) == {key: wanted[key] for key in _plain(found)}
    for device, numbers in wanted["devices"].items():
        of_device = found.devices[device]
        assert {key: numbers[key] for key in ("span_ns", "busy_ns", "idle_ns", "kernels")} == vars(of_device)
    assert found.busy_kernels_ns == sum(numbers["busy_kernels_ns"] for numbers in wanted["devices"].values())
    assert set(found.devices) == set(wanted["devices"])


def _plain(found: Totals) -> dict[str, object]:
    return {
        "events": found.events,
        "kernel_time_ns": found.kernel_time_ns,
        "launches": found.launches,
        "graph_launches": found.graph_launches,
        "copies": {name: (copy.count, copy.bytes, copy.time_ns) for name, copy in found.copies.items()},
        "syncs": (found.syncs.count, found.syncs.time_ns),
    }


@pytest.mark.parametrize("name", TRUTH)
def test_the_ground_truth_is_met_to_the_nanosecond(name: str, shared: Path) -> None:
    truth = TRUTH[name]
    trace = read(shared / "traces" / f"{name}.json.gz")
    found = totals(trace)
    assert (found.events, found.kernels, found.launches) == (truth["events"], truth["kernels"], truth["launches"])
    assert found.graph_launches == sum(api["count"] for api in truth["graph_launches"].values())
    assert found.kernel_time_ns == _ns(truth["kernel_time_sum_us"])
    assert found.busy_ns == _ns(truth["busy_all_us"])
    assert found.busy_kernels_ns == _ns(truth["busy_kernels_us"])
    assert found.span_ns == _ns(truth["span_us"])
    assert found.idle_ns == _ns(truth["span_us"]) - _ns(truth["busy_all_us"])
    assert (found.syncs.count, found.syncs.time_ns) == (truth["sync_calls"], _ns(truth["sync_time_us"]))
    copies = {name: (copy["count"], copy["bytes"], _ns(copy["time_us"])) for name, copy in truth["memcpy"].items()}
    assert {name: (copy.count, copy.bytes, copy.time_ns) for name, copy in found.copies.items()} == copies
    marks = [(step["name"], _ns(step["dur_us"])) for step in truth["steps"]]
    assert [(step.name, step.dur_ns) for step in found.steps] == marks
    _check_tables(trace, truth)


def _check_tables(trace: Trace, truth: dict[str, Any]) -> None:
    streams = busy_by_stream(trace)
    names = [f"{device}/{stream}" for device, stream in zip(streams["device"], streams["stream"], strict=True)]
    wanted = {name: _ns(stream["busy_us"]) for name, stream in truth["streams"].items()}
    assert dict(zip(names, streams["busy_ns"].tolist(), strict=True)) == wanted
    top = [(kernel["name"], kernel["count"], _ns(kernel["time_us"])) for kernel in truth["top5_kernels"]]
    found = [(row.name, row.count, row.time_ns) for row in tables(trace, 5).kernels]
    assert sorted(found) == sorted(top)


def _ns(microseconds: float) -> int:
    """The truth has three decimals; they are exact once rounded to whole nanoseconds."""
    return round(Decimal(str(microseconds)) * 1000)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_the_causes_of_idle_time_add_up_to_it_exactly(path: Path) -> None:
    found = totals(read(path))
    assert sum(found.idle_by_cause.values()) == found.idle_ns
    assert all(time >= 0 for time in found.idle_by_cause.values())


@pytest.mark.parametrize("path", sorted((SHARED / "traces").glob("**/*.*")), ids=lambda path: path.name)
def test_every_file_ends_in_a_trace_or_a_sentence(path: Path) -> None:
    try:
        trace = read(path)
    except UnreadableTrace as refused:
        assert str(path) in str(refused) and str(refused).endswith(".")
    else:
        assert len(trace.events) and np.all(trace.events.dur_ns >= -1)


def test_quotes_in_the_names_of_torch_1_13_lose_nothing(shared: Path) -> None:
    trace = read(shared / "traces" / "invalid_torch1.13_full_step.json.gz")
    assert len(trace.events) == 1264
    assert [(note.code, note.events) for note in trace.health] == [("EVENTS-MENDED", 2)]
    assert 'my "quoted" \\ region\tand tab' in trace.events.names
    assert trace.metadata["my_json"] == {"a": [1, 2]}


def test_a_quote_in_a_name_of_torch_2_13_loses_nothing(shared: Path) -> None:
    trace = read(shared / "traces" / "invalid_torch2.13_quote_in_name.json.gz")
    assert len(trace.events) == 65
    assert [(note.code, note.events) for note in trace.health] == [("EVENTS-MENDED", 1)]
    row = trace.events.names_at(range(65)).index('say "hi"')
    assert (trace.events.start_ns[row], trace.events.dur_ns[row]) == (5302715867550913, 19048054)


@pytest.mark.parametrize("name", ["particle_no_gpu_activity", "hta_a100_cupti_ranges"])
def test_gpu_activity_that_was_not_recorded_is_said_and_never_called_idle(name: str, shared: Path) -> None:
    trace = read(shared / "traces" / f"{name}.json.gz")
    assert [note.code for note in trace.health] == ["GPU-NOT-RECORDED"]
    assert totals(trace).devices == {}
    assert totals(trace).idle_by_cause == {}


@pytest.mark.parametrize("name", ["hta_cpu_rank", "hta_cpu_only"])
def test_a_run_on_the_cpu_is_healthy(name: str, shared: Path) -> None:
    assert read(shared / "traces" / f"{name}.json.gz").health == ()


def test_ranks_are_told_by_their_files(shared: Path) -> None:
    files = sorted((shared / "traces" / "param_dlrm_8ranks").glob("*.json.gz"))
    assert [read(file).rank for file in files] == list(range(8))


AGES = {
    "kineto_torch181_gpu_metrics": "1.8-1.9",
    "hta_old_category_names": "1.10-1.11",
    "hta_compare_base": "1.12-1.13",
    "hta_a100_alexnet": "2.0-2.3",
    "hta_a100_nccl_resnet": "2.4-2.7",
    "tracelens_mi300_torch_compile": "2.8 or later",
}


@pytest.mark.parametrize(("name", "age"), AGES.items())
def test_the_age_of_a_file_is_guessed_and_never_claimed(name: str, age: str, shared: Path) -> None:
    assert read(shared / "traces" / f"{name}.json.gz").producer == f"looks like PyTorch {age}"
