"""What must hold for every report, whoever wrote it: nothing executes, nothing breaks, silence is said aloud."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from profiler_doctor import __version__
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.plugins import find
from tests import documents
from tests.page_text import PageText

REPORTS = find("profiler_doctor.reports", Report)
GOLDEN = Path(__file__).parent / "golden"
TRACE = b'{"traceEvents": [\n{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1.500, "dur": 2.000}\n]}\n'
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
TURNS_THE_LINE = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_bytes(TRACE)
    return path


def shown(report: Report, document: object, trace: Path) -> str:
    """The report as text; what is packed is unpacked."""
    content = report.render(document, trace)  # type: ignore[arg-type]  # the documents below are Diagnosis
    return (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8")


def read_by_a_person(text: str) -> str:
    return PageText(text).text if text.startswith("<!doctype html>") else text


each = pytest.mark.parametrize("report", REPORTS.items, ids=lambda report: report.name)


def test_every_file_of_the_folder_loads() -> None:
    assert REPORTS.broken == ()
    assert {"text", "html", "json", "md", "trace"} <= {report.name for report in REPORTS.items}


def test_names_and_files_are_unique() -> None:
    names = [report.name for report in REPORTS.items]
    files = [report.filename for report in REPORTS.items if report.filename]

    assert len(set(names)) == len(names)
    assert len(set(files)) == len(files)


@each
def test_a_healthy_document_is_said_to_be_healthy(report: Report, trace: Path) -> None:
    text = read_by_a_person(shown(report, documents.healthy(), trace))

    assert "Nothing found that is worth" in text


@each
def test_the_verdict_stands_in_it(report: Report, trace: Path) -> None:
    text = read_by_a_person(shown(report, documents.resnet(), trace))

    assert "channels-last makes a step 1.31 times as fast" in " ".join(text.split())


@each
def test_an_empty_document_does_not_break_it(report: Report, trace: Path) -> None:
    assert shown(report, documents.empty(), trace)


@each
@pytest.mark.parametrize("name", documents.NASTY, ids=lambda name: name[:12])
def test_no_name_becomes_markup_or_moves_the_terminal(report: Report, trace: Path, name: str) -> None:
    text = shown(report, documents.hostile(name), trace)

    assert not CONTROLS.search(text)
    assert report.name == "json" or not TURNS_THE_LINE.search(text)  # the document keeps names as they are
    if text.startswith("<!doctype html>"):
        page, plain = PageText(text), PageText(shown(report, documents.hostile("p" * len(name)), trace))
        tags = [sorted(tag for tag in each.tags if tag != "code") for each in (page, plain)]
        assert tags[0] == tags[1]  # as many elements of each kind as for a tame name; ticks in a sentence mean code
        assert [kind for kind, _ in page.scripts] == [kind for kind, _ in plain.scripts]
        assert not [attribute for attribute in page.attributes if attribute[1].startswith("on")]


@each
@pytest.mark.parametrize(
    "document", [documents.resnet, documents.gpu_trace, documents.healthy], ids=lambda made: made.__name__
)
def test_it_reads_as_agreed(report: Report, document: object, trace: Path) -> None:
    """The golden file; UPDATE_GOLDEN=1 writes it anew, and the difference is read before it is committed."""
    text = read_by_a_person(shown(report, document(), trace))  # type: ignore[operator]  # one of the makers above
    text = text.replace(__version__, "VERSION").replace(str(trace), "TRACE").rstrip() + "\n"
    golden = GOLDEN / f"{document.__name__}.{report.name}.txt"  # type: ignore[attr-defined]  # as above
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")

    assert text == golden.read_text(encoding="utf-8")
