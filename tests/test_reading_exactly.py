"""What was mended, cut into runs or learned on the way is read as exactly as what was whole and read in one go."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler_doctor.analyzer.formats import _events, _text
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._growing import Growing
from profiler_doctor.analyzer.formats._typed import TypedReader
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from tests import plain_reference
from tests.trace_builder import TraceBuilder

pytestmark = pytest.mark.usefixtures("reader")
BROKEN = {
    "invalid_torch2.13_quote_in_name": ('say "hi"', 1),
    "invalid_torch1.13_full_step": ('my "quoted" \\ region\tand tab', 2),
}
"""File → the name in it that its profiler did not escape, and how often it stands there."""
LEARNED = ["hta_a100_nccl_resnet", "hta_mtia_inference", "tracelens_h100_vit", "hta_rec_rank0", "kineto_torch181_gpu_metrics"]  # fmt: skip  # noqa: E501


def columns(trace: Trace) -> dict[str, Any]:
    """Everything of every event, codes replaced by what they stand for."""
    events = trace.events
    told: dict[str, Any] = {
        "phase": events.phase.tolist(),
        "name": events.names_at(range(len(events))),
        "category": [events.categories[code] for code in events.category.tolist()],
        "thread": [events.threads[code] for code in events.thread.tolist()],
        "start_ns": events.start_ns.tolist(),
        "dur_ns": events.dur_ns.tolist(),
    }
    for name, column in events.arguments.items():
        values = column.values.tolist()
        told[f"args {name}"] = column.rows.tolist(), [column.table[code] for code in values] if column.table else values
    return told


@pytest.mark.parametrize("name", BROKEN)
def test_a_mended_file_equals_the_same_file_escaped_by_hand(name: str, shared: Path, tmp_path: Path) -> None:
    path, (written, times) = shared / "traces" / f"{name}.json.gz", BROKEN[name]
    text = gzip.decompress(path.read_bytes()).decode()
    assert text.count(f'"{written}"') == times
    escaped = tmp_path / "escaped.json"
    escaped.write_text(text.replace(f'"{written}"', json.dumps(written)))
    events, _ = plain_reference.load(escaped)
    mended = columns(read(path))
    assert mended["name"] == [event["name"] for event in events]
    assert mended["start_ns"] == [max(plain_reference.ns(event.get("ts")), 0) for event in events]
    assert mended["dur_ns"] == [plain_reference.ns(event.get("dur")) for event in events]
    assert mended == columns(read(escaped))


@pytest.mark.parametrize("size", [1 << 12, 1 << 15])
@pytest.mark.parametrize("name", LEARNED)
def test_what_was_learned_from_earlier_runs_changes_nothing(
    name: str, size: int, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    whole = columns(read(path))
    monkeypatch.setattr(_text, "CHUNK_BYTES", size)
    monkeypatch.setattr(_events, "CHUNK_BYTES", size)
    assert columns(read(path)) == whole


EVENT = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"External id": 1}}
SURPRISES: list[dict[str, Any]] = [
    EVENT | {"ph": "i"},
    EVENT | {"pid": 2},
    EVENT | {"tid": "stream 7"},
    EVENT | {"id": 5},
    EVENT | {"cat": "new"},
    EVENT | {"args": {}},
    EVENT | {"args": {"External id": 1.5}},
    EVENT | {"args": {"External id": 2**70}},
    EVENT | {"args": {"other": [1, 2]}},
    EVENT | {"args": None},
    EVENT | {"dur": 2.001},
    {key: value for key, value in EVENT.items() if key != "dur"},
    {key: value for key, value in EVENT.items() if key != "cat"},
    {key: value for key, value in EVENT.items() if key != "args"},
    {key: value for key, value in EVENT.items() if key != "pid"},
]
"""Events unlike all that came before them: each way in which a category can differ from what it has shown."""


@pytest.mark.parametrize("surprise", SURPRISES, ids=lambda event: json.dumps(event)[:60])
def test_an_event_unlike_all_before_it_is_read_as_it_stands(
    surprise: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [EVENT | {"ts": 10 * place, "args": {"External id": place}} for place in range(300)]
    events[200] = surprise | {"ts": 2000}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    whole = columns(read(path))
    monkeypatch.setattr(_text, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(_events, "CHUNK_BYTES", 2000)
    found = read(path)
    assert columns(found) == whole
    assert found.events.start_ns.tolist() == [event["ts"] * 1000 for event in events]
    assert found.events.dur_ns.tolist() == [plain_reference.ns(_decimal(event.get("dur"))) for event in events]
    assert found.events.names_at(range(300)) == ["a"] * 300
    assert [found.events.threads[code] for code in found.events.thread.tolist()] == [
        (event.get("pid", ""), event.get("tid", "")) for event in events
    ]


def _decimal(value: float | None) -> Any:
    return None if value is None else json.loads(json.dumps(value), parse_float=plain_reference.Decimal)


def test_runs_like_the_first_are_read_after_one_that_taught_a_new_argument() -> None:
    """What was made for the earlier form must not decode what the later form then reads."""
    reader = TypedReader(Columns())
    usual, seldom = EVENT, EVENT | {"args": {"External id": 1, "seldom": 5}}
    for run in ([usual] * 100, [*[usual] * 99, seldom], [usual] * 100, [seldom, *[usual] * 99]):
        reader.add(memoryview(json.dumps(run).encode()))
    column = reader.columns.events().arguments["seldom"]
    assert column.rows.tolist() == [199, 300]
    assert column.values.tolist() == [5, 5]


def test_every_event_of_an_onnx_runtime_profile_is_read_as_it_stands(shared: Path) -> None:
    path = shared / "traces" / "ort_olive_profile.json.gz"
    events = read(path).events
    written = [event for event in json.loads(gzip.decompress(path.read_bytes())) if event.get("ph") == "X"]
    ends = ("_kernel_time", "_fence_before", "_fence_after")
    wanted = Counter(
        (event["ts"] * 1000, event["dur"] * 1000, _without(event["name"], ends), event["args"].get("op_name"))
        for event in written
    )
    nodes, names = events.text("Node name"), events.text("Written name")
    found = Counter(
        (
            int(events.start_ns[row]),
            int(events.dur_ns[row]),
            nodes.text_at(row) or names.text_at(row) or ("" if nodes.text_at(row) == "" else events.name_of(row)),
            events.text("op_name").text_at(row),
        )
        for row in range(len(events))
    )
    assert found == wanted


def _without(name: str, ends: tuple[str, ...]) -> str:
    return next((name.removesuffix(end) for end in ends if name.endswith(end)), name)


def test_ops_without_a_duration_make_a_window(tmp_path: Path) -> None:
    recording = TraceBuilder().gpu("kernel", 100_000, 50_000, correlation=0)
    recording.op("record_param_comms", 200_000, 0)
    del recording.events[-1]["dur"]
    span = window(recording.trace(tmp_path))
    assert span is not None and (span.start_ns, span.span_ns) == (200_000, 0)


def test_whole_numbers_grow_from_32_to_64_bits_and_stay_what_they_are() -> None:
    growing = Growing(np.int64)
    parts = [list(range(1500)), [-(2**31)], [2**31 - 1], [2**40], list(range(5000)), [-(2**62)]]
    for part in parts:
        growing.append(np.array(part))
    assert growing.values.tolist() == [number for part in parts for number in part]


def test_what_somebody_still_looks_at_stays_as_it_was_when_an_array_grows() -> None:
    growing = Growing(np.int64)
    growing.append(np.arange(1000))
    seen = growing.values
    growing.append(np.arange(100_000))
    seen[0] = 7
    assert (seen.tolist()[:3], growing.values.tolist()[:3]) == ([7, 1, 2], [0, 1, 2])
