"""Findings written back into a trace: viewers' rules are kept, and every original event stays as it was."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.model import Diagnosis, Finding, Stake
from profiler_doctor.reports.annotated_trace import REPORT, NotAnnotatable
from profiler_doctor.reports.tracks import Slice, disjoint
from tests import documents

EVENT = '{"ph": "X", "cat": "kernel", "name": "k \\"q\\"", "pid": 0, "tid": 7, "ts": 1712195495519689.047, "dur": 0.5}'
EVENTS = f'{EVENT},\n  {{ "ph":"i","s":"g", "name": "é", "ts": 1.25e3 }}'


def annotated(path: Path, document: Diagnosis) -> str:
    return gzip.decompress(REPORT.render(document, path)).decode("utf-8")


def written(folder: Path, text: str, *, packed: bool = False) -> Path:
    path = folder / "trace.json"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


def parted(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(ours, the others): ours are those of the process that calls itself Profiler Doctor."""
    (pid,) = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and event["args"]["name"] == "Profiler Doctor"
    }
    return [event for event in events if event.get("pid") == pid], [
        event for event in events if event.get("pid") != pid
    ]


def with_intervals(*intervals: tuple[int, int], message: str = "m") -> Finding:
    return Finding(
        message=message, stake=Stake(share=0.2, basis="b"), evidence={"intervals_ns": [list(i) for i in intervals]}
    )


def of(*findings: Finding) -> Diagnosis:
    return replace(documents.gpu_trace(), outcomes=(documents.found("TST001", "test", *findings),), trials=())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        f'{{"schemaVersion": 1, "traceEvents": [{EVENTS}], "baseTimeNanoseconds": 9}}',
        f'{{ "a": "\\"traceEvents\\": [", "deep": {{"traceEvents": [1]}}, "traceEvents" : [ {EVENTS} ] }}',
        f"\n [{EVENTS}]\n",
        '{"traceEvents": [ ]}',
        "[]",
    ],
)
def test_the_original_text_is_kept_around_our_events(text: str, packed: bool, tmp_path: Path) -> None:
    path = written(tmp_path, text, packed=packed)

    result = annotated(path, documents.gpu_trace())

    before, after = json.loads(text), json.loads(result)
    old = before if isinstance(before, list) else before.pop("traceEvents")
    new = after if isinstance(after, list) else after.pop("traceEvents")
    assert parted(new)[1] == old
    assert isinstance(before, list) or after == before
    start = next(n for n, (a, b) in enumerate(zip(text, result, strict=False)) if a != b)
    assert result.endswith(text[start:])  # byte for byte: what follows our events is the rest of the original
    assert result.startswith(text[:start])


def test_a_text_that_breaks_off_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    text = f'{{"traceEvents": [{EVENT}, {{"ph": "X", "na'

    result = annotated(written(tmp_path, text), documents.gpu_trace())

    assert result.endswith(text[len('{"traceEvents": [') :])


def test_each_rule_has_a_thread_with_a_name_and_a_place_under_one_process_above_all(tmp_path: Path) -> None:
    events = json.loads(annotated(written(tmp_path, f"[{EVENTS}]"), documents.resnet()))

    ours, others = parted(events)

    named = {(event["name"], event["tid"]): event["args"] for event in ours if event["ph"] == "M"}
    threads = {args["name"]: tid for (name, tid), args in named.items() if name == "thread_name"}
    assert list(threads) == ["LAY004 nchw-convolution", "OPT004 autograd-in-inference"]
    assert named["process_sort_index", 0]["sort_index"] < 0
    assert all(("thread_sort_index", tid) in named for tid in threads.values())
    assert not {event["pid"] for event in ours} & {event.get("pid") for event in others}


def test_a_slice_has_the_traces_own_time_exactly_and_says_what_it_is(tmp_path: Path) -> None:
    finding = with_intervals((1_712_195_495_519_689_047, 1_712_195_495_519_690_047), message="why")

    text = annotated(written(tmp_path, "[]"), of(finding))

    (piece,) = [event for event in parted(json.loads(text))[0] if event["ph"] == "X"]
    assert '"ts": 1712195495519689.047, "dur": 1.000' in text
    assert {key: piece["args"][key] for key in ("code", "message", "share", "cures", "verified")} == {
        "code": "TST001",
        "message": "why",
        "share": 0.2,
        "cures": [],
        "verified": "no",
    }


def test_a_verified_finding_says_by_what(tmp_path: Path) -> None:
    pieces = parted(json.loads(annotated(written(tmp_path, "[]"), documents.resnet())))[0]

    assert {e["args"]["verified"][:20] for e in pieces if e["ph"] == "X"} == {"channels-last: 1.31×"}


def test_slices_of_one_thread_never_overlap(tmp_path: Path) -> None:
    given = of(
        with_intervals((0, 100), (50, 150), (400, 500), message="outer"),
        with_intervals((10, 20), (140, 160), (145, 410), (700, 700), message="inner"),
        with_intervals((15, 600), message="long"),
    )

    pieces = [e for e in parted(json.loads(annotated(written(tmp_path, "[]"), given)))[0] if e["ph"] == "X"]

    by_thread: dict[int, list[tuple[int, int]]] = {}
    for piece in pieces:
        start, length = round(piece["ts"] * 1000), round(piece["dur"] * 1000)
        by_thread.setdefault(piece["tid"], []).append((start, start + length))
    for spans in by_thread.values():
        ordered = sorted(spans)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ordered))
    assert {piece["args"]["message"] for piece in pieces} == {"outer", "inner", "long"}


def test_an_inner_stretch_is_shown_and_the_outer_one_goes_on_after_it() -> None:
    assert disjoint([Slice(0, 100, 0), Slice(10, 20, 1)]) == [Slice(0, 10, 0), Slice(10, 20, 1), Slice(20, 100, 0)]


def test_stretches_of_one_finding_are_merged_where_they_meet() -> None:
    assert disjoint([Slice(0, 10, 0), Slice(5, 20, 0), Slice(20, 30, 0), Slice(40, 50, 0)]) == [
        Slice(0, 30, 0),
        Slice(40, 50, 0),
    ]


@pytest.mark.parametrize("content", [b"SQLite format 3\x00", b"\x0a\x80 plane", b'{"a": [1]}', b"", b"plain words"])
def test_what_is_no_chrome_trace_ends_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(NotAnnotatable, match="no chrome trace"):
        REPORT.render(documents.gpu_trace(), path)


def test_real_traces_keep_every_byte(shared: Path) -> None:
    for name in (
        "hta_a100_triton",
        "kineto_torch181_gpu_metrics",
        "ort_olive_profile",
        "invalid_torch2.13_quote_in_name",
    ):
        path = shared / "traces" / f"{name}.json.gz"
        original = gzip.decompress(path.read_bytes())

        result = gzip.decompress(REPORT.render(documents.gpu_trace(), path))

        at = result.index(b'\n{"ph": "M", "name": "process_name", "pid": 2000000007')
        assert original.startswith(result[:at])
        assert result.endswith(original[at:])
