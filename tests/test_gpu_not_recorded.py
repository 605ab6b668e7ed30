"""A GPU that was used and not recorded is said to be unknown, in every report: never idle, never 0 % busy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiler_doctor.analyzer.diagnosis import Subject, diagnosis
from profiler_doctor.analyzer.document import encode
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import read
from profiler_doctor.verbs.choice import every_rule
from tests.trace_builder import TraceBuilder

REPORTS = [report for report in find("profiler_doctor.reports", Report).items if not report.needs_trace]
NOTHING_OF_IT = re.compile(r"(?<![\d.,<])0(?:\.0+)?\s*%|\bidle\b[^.]*\b\d|\bbusy\b[^.]*\b\d", re.IGNORECASE)
"""0 %, or a number beside the words for what the GPU did."""


def diagnosed(path: Path) -> Diagnosis:
    trace = read(path)
    return diagnosis(Subject(name=path.name, command=()), trace, examine(trace, every_rule()))


def words(report: Report, document: Diagnosis) -> str:
    """What a reader sees: without style, scripts and tags."""
    text = report.render(document, None).decode()
    text = re.sub(r"(?s)<(script|style)[^>]*>.*?</\1>", " ", text)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


@pytest.fixture
def launches_without_kernels(tmp_path: Path) -> Path:
    recording = TraceBuilder()
    for number in range(4):
        start = number * 1_000_000
        recording.step(number, start, 900_000).op("aten::mm", start + 1_000, 500_000)
        recording.call("cudaLaunchKernel", start + 2_000, 5_000, correlation=number + 1)
    return recording.write(tmp_path)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_every_report_says_that_the_gpu_was_not_recorded(report: Report, launches_without_kernels: Path) -> None:
    said = words(report, diagnosed(launches_without_kernels))
    assert "no GPU activity was recorded" in said
    if report.name != "json":  # the document has its totals as numbers, with no device in them
        assert not NOTHING_OF_IT.search(said)


@pytest.mark.parametrize("name", ["particle_no_gpu_activity", "hta_a100_cupti_ranges"])
@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_real_traces_without_their_gpu_do_too(report: Report, name: str, shared: Path) -> None:
    said = words(report, diagnosed(shared / "traces" / f"{name}.json.gz"))
    assert "no GPU activity was recorded" in said
    if report.name != "json":
        assert not NOTHING_OF_IT.search(said)


def test_the_document_has_no_device_that_could_be_called_idle(launches_without_kernels: Path) -> None:
    document = diagnosed(launches_without_kernels)
    assert document.totals.devices == {}
    assert document.totals.idle_by_cause == {}
    assert b'"GPU-NOT-RECORDED"' in encode(document)


def test_the_first_sentence_does_not_pass_over_it(launches_without_kernels: Path) -> None:
    assert "no GPU activity was recorded" in diagnosed(launches_without_kernels).verdict.sentence
