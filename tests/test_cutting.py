"""Traces larger than a viewer holds are cut to the window of interest, and what stays is as it was."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.formats._cutting import cut, survey, widest_window
from profiler_doctor.analyzer.model import Diagnosis, Finding, Stake
from profiler_doctor.reports import annotated_trace, viewable
from profiler_doctor.reports.viewable import Limits, cut_of
from profiler_doctor.reports.writing import write_all
from tests import documents
from tests.trace_builder import TraceBuilder

Event = dict[str, Any]


def small_limits(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(viewable, "LIMITS", Limits(held=kept, kept=kept))


def of(text: bytes) -> list[Event]:
    value = json.loads(text, parse_float=Decimal)
    events: list[Event] = value if isinstance(value, list) else value["traceEvents"]
    return events


def event_texts(text: str) -> list[str]:
    """Each event of a valid trace as it stands in the file, found by Python's own reader."""
    place = text.index("[", text.index('"traceEvents"')) + 1
    found = []
    while (place := re.compile(r"[\s,]*").match(text, place).end()) < len(text) and text[place] != "]":  # type: ignore[union-attr]  # it matches the empty text too
        start, place = place, json.JSONDecoder().raw_decode(text, place)[1]
        found.append(text[start:place])
    return found


def expected(events: list[Event], begin: Decimal, end: Decimal) -> list[Event]:
    """What is to stay, said plainly: all at once and with exact times."""

    def inside(event: Event) -> bool:
        start = Decimal(event["ts"])
        return start <= end and start + Decimal(event.get("dur", 0)) >= begin

    arrows = [event for event in events if event.get("ph") in ("s", "t", "f")]
    linked = {(event["cat"], event["id"]) for event in arrows if inside(event)}
    ends = {(e["pid"], e["tid"], e["ts"]) for e in arrows if (e["cat"], e["id"]) in linked}

    def stays(event: Event) -> bool:
        if event["ph"] in ("s", "t", "f"):
            return (event["cat"], event["id"]) in linked
        if event["ph"] not in ("X", "i") or inside(event):
            return True
        return event["ph"] == "X" and (event["pid"], event["tid"], event["ts"]) in ends

    return [event for event in events if stays(event)]


@pytest.mark.parametrize("name", ["hta_a100_nccl_resnet", "hta_a100_alexnet", "tracelens_mi300_vllm_graph"])
def test_the_window_the_names_and_the_arrows_stay_as_they_were_written(name: str, shared: Path) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    original = gzip.decompress(path.read_bytes())
    whole = of(original)
    times = sorted(int(event["ts"] * 1000) for event in whole if event["ph"] == "X")
    window = times[len(times) // 3], times[len(times) // 2]

    text = b"".join(cut(path, survey(path), window))

    kept = of(text)
    assert kept == expected(whole, Decimal(window[0]) / 1000, Decimal(window[1]) / 1000)
    assert len(kept) < len(whole)
    ours, theirs = json.loads(text), json.loads(original)
    assert {key: value for key, value in ours.items() if key != "traceEvents"} == {
        key: value for key, value in theirs.items() if key != "traceEvents"
    }
    decoded, place = original.decode("utf-8"), 0
    for written in event_texts(text.decode("utf-8")):
        place = decoded.index(written, place) + len(written)  # in the file's order, byte for byte


def test_the_widest_window_holds_the_focus_and_no_more_than_it_may(tmp_path: Path) -> None:
    built = TraceBuilder()
    for op in range(100):
        built.op("aten::mm", op * 1_000, 500)
    path = built.write(tmp_path, "trace.json")
    found = survey(path)
    one = int(found.sizes[0])

    begin, end = widest_window(found, (50_000, 50_500), 11 * one + 50)

    inside = [op for op in range(100) if begin <= op * 1_000 <= end]
    assert inside == list(range(45, 56))
    assert widest_window(found, (0, 500), 11 * one + 50)[0] == 0  # no further than the trace reaches
    assert widest_window(found, (20_000, 60_000), one) == (20_000, 60_000)  # the focus stays, whatever it takes
    assert widest_window(found, None, 10**9) == (0, 99_000)


def test_where_nothing_can_be_cut_everything_stays(tmp_path: Path) -> None:
    text = '[{"ph": "M", "name": "process_name"}, {"ph": "B", "ts": 1}, {"ph": "E", "ts": 9}, {}]'
    path = tmp_path / "trace.json"
    path.write_text(text)

    kept = b"".join(cut(path, survey(path), (5_000, 5_000)))

    assert json.loads(kept) == json.loads(text)


@pytest.mark.parametrize("name", ["invalid_torch2.13_quote_in_name", "invalid_torch1.13_full_step"])
def test_what_is_no_valid_event_does_not_hinder_the_others(name: str, shared: Path) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    original = gzip.decompress(path.read_bytes())

    everything = b"".join(cut(path, survey(path), (-(10**18), 10**19)))

    squeezed = [re.sub(rb"[\s,]", b"", text) for text in (everything, original)]
    assert squeezed[0] == squeezed[1]  # only blanks and commas between the events are ours


def test_a_trace_that_breaks_off_is_closed(tmp_path: Path) -> None:
    events = ", ".join(f'{{"ph": "X", "name": "é", "ts": {time}, "dur": 1}}' for time in range(10))
    path = tmp_path / "trace.json"
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{events}, {{"ph": "X", "na', "utf-8")

    kept = of(b"".join(cut(path, survey(path), (3_500, 5_500))))

    assert [event["ts"] for event in kept] == [3, 4, 5]


def found_at(start: int, end: int) -> Diagnosis:
    finding = Finding(message="m", stake=Stake(share=0.2, basis="b"), evidence={"intervals_ns": [[start, end]]})
    return replace(documents.gpu_trace(), outcomes=(documents.found("TST001", "test", finding),), trials=())


def test_the_annotated_file_of_a_large_trace_is_cut_around_the_finding_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = TraceBuilder()
    for op in range(2_000):
        built.op("aten::mm", op * 1_000, 500)
    path = built.write(tmp_path, "trace.json")
    small_limits(monkeypatch, kept=20_000)
    said: list[str] = []

    (written,) = write_all(found_at(500_000, 500_400), tmp_path / "out", path, [annotated_trace.REPORT], said.append)

    text = gzip.decompress(written.read_bytes())
    ours = [event for event in of(text) if event.get("cat") == "profiler_doctor"]
    theirs = [event for event in of(text) if event.get("cat") == "cpu_op"]
    assert [event["args"]["code"] for event in ours] == ["TST001"]
    assert 0 < len(theirs) < 200
    assert any(event["ts"] == 500 for event in theirs)
    known = cut_of(written)
    assert known is not None
    assert known.window_ns[0] < 500_000 < known.window_ns[1]
    (sentence,) = said
    assert sentence.startswith("trace-with-findings.json.gz: Cut to what a browser's viewer opens well: 0.")
    assert f"{len(text) / 1e6:,.1f} MB of {path.stat().st_size / 1e6:,.1f} MB" in sentence


def test_a_trace_that_the_viewer_holds_is_not_cut(tmp_path: Path) -> None:
    path = TraceBuilder().op("aten::mm", 0, 500).write(tmp_path, "trace.json")
    said: list[str] = []

    (written,) = write_all(found_at(0, 100), tmp_path / "out", path, [annotated_trace.REPORT], said.append)

    assert said == []
    assert cut_of(written) is None
