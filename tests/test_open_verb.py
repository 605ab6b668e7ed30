"""`profiler-doctor open`: one file, on loopback alone, for the viewer alone, until it was fetched."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from profiler_doctor.analyzer.document import load as document_of
from profiler_doctor.reports import annotated_trace, viewable
from profiler_doctor.reports.viewable import Limits
from profiler_doctor.verbs import open as open_verb
from profiler_doctor.verbs.open import PORT, OpenOptions, open_trace
from profiler_doctor.verbs.serving import LOOPBACK, OneFile, Served
from tests.trace_builder import TraceBuilder

VIEWER = "https://ui.perfetto.dev"


@contextmanager
def opened(*words: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The verb at work, and the address that it told."""
    command = [sys.executable, "-m", "profiler_doctor", "open", *words, "--no-browser"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().removeprefix("Open ").strip()
    finally:
        process.kill()
        process.communicate()


def asked(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def a_run(folder: Path) -> Path:
    """The folder of an analysis with a finding that has a place."""
    built = TraceBuilder()
    for step in range(3):
        built.step(step, step * 1_000_000, 1_000_000)
        for kernel in range(20):
            at = step * 1_000_000 + kernel * 50_000
            built.launch("k", (at, 2_000), (at + 4_000, 2_000))
    trace = built.write(folder, "trace.json")
    command = [sys.executable, "-m", "profiler_doctor", "analyze", str(trace), "--out", str(folder / "run")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    return folder / "run"


def test_the_viewer_gets_the_annotated_trace_at_the_finding_and_then_it_ends(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    document = json.loads((folder / "diagnosis.json").read_text("utf-8"))
    (found,) = (outcome for outcome in document["outcomes"] if outcome["code"] == "LCH001")
    start, end = found["findings"][0]["evidence"]["intervals_ns"][0]

    with opened(str(folder), "--at", "LCH001", folder=tmp_path) as (process, address):
        query = parse_qs(urlparse(address).fragment.removeprefix("!/?"))
        file = urlparse(query["url"][0])
        status, headers, body = asked(int(file.port or 0), file.path)
        said, complaints = process.communicate(timeout=30)

    assert address.startswith(f"{VIEWER}/#!/?url=http://127.0.0.1:9001/")
    assert int(query["visStart"][0]) < start < end < int(query["visEnd"][0])
    assert (status, headers["access-control-allow-origin"]) == (200, VIEWER)
    assert headers["cache-control"] == "no-cache"
    assert b"Profiler Doctor" in gzip.decompress(body)
    assert (process.returncode, complaints) == (0, "")
    assert "Fetched" in said


def test_only_that_file_is_there_and_only_under_this_machines_own_name(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100).write(tmp_path, "trace.json")
    server = OneFile(0, Served(trace, "trace.json"))
    with pytest.raises(OSError, match="in use"):
        OneFile(server.port, Served(trace, "trace.json"))
    server._server.server_close()

    with opened(str(trace), folder=tmp_path) as (process, address):
        port = int(urlparse(parse_qs(urlparse(address).fragment.removeprefix("!/?"))["url"][0]).port or 0)
        others = [asked(port, path)[0] for path in ("/", "/other.json", "/../trace.json", "//etc/passwd")]
        foreign = asked(port, "/trace.json", Host="evil.example")
        preflight = asked(port, "/trace.json", "OPTIONS")
        head = asked(port, "/trace.json", "HEAD")
        running = process.poll() is None
        whole = asked(port, "/trace.json")[2]

    assert others == [404, 404, 404, 404]
    assert (foreign[0], foreign[2]) == (403, b"")
    assert (preflight[0], preflight[1]["access-control-allow-private-network"]) == (204, "true")
    assert (head[0], head[1]["content-length"], head[2]) == (200, str(len(whole)), b"")
    assert running, "what is not the file does not end it"
    assert whole == trace.read_bytes()


def test_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100).write(tmp_path, "trace.json")
    server = OneFile(0, Served(trace, "trace.json"))

    assert server._server.socket.getsockname()[0] == LOOPBACK
    server._server.server_close()


def test_where_the_viewers_port_is_taken_a_page_hands_the_trace_over(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100).write(tmp_path, "trace.json")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((LOOPBACK, PORT))
        taken.listen()
        with opened(str(trace), folder=tmp_path) as (process, address):
            port = int(urlparse(address).port or 0)
            page, file = asked(port, "/"), asked(port, "/trace.json")
            process.communicate(timeout=30)

    assert (page[0], page[1]["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"postMessage" in page[2]
    assert b'fetch("/trace.json")' in page[2]
    assert file[2] == trace.read_bytes()
    assert process.returncode == 0


def fetched_meanwhile(folder: Path, at: str) -> tuple[bytes, int]:
    """What the verb serves, and how it ends; in this process, so that the viewer can be made smaller."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(open_verb, "PORT", port)
        ended = pool.submit(open_trace, OpenOptions(what=folder, at=at, browser=False))
        body = b""
        while not body and not ended.done():
            with contextlib.suppress(ConnectionRefusedError):
                body = asked(port, "/trace.json.gz")[2]
        return body, ended.result(timeout=30)


def test_a_trace_that_is_too_large_is_cut_around_the_finding_asked_for_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_run(tmp_path)
    trace = tmp_path / "trace.json"
    (folder / "trace.json.gz").write_bytes(gzip.compress(trace.read_bytes()))
    document = json.loads((folder / "diagnosis.json").read_text("utf-8"))
    (found,) = (outcome for outcome in document["outcomes"] if outcome["code"] == "LCH001")
    start, end = found["findings"][0]["evidence"]["intervals_ns"][0]
    monkeypatch.setattr(viewable, "LIMITS", Limits(held=3_000, kept=3_000))
    (folder / "trace-with-findings.json.gz").unlink()

    body, code = fetched_meanwhile(folder, "LCH001")

    events = json.loads(gzip.decompress(body))["traceEvents"]
    times = [event["ts"] * 1_000 for event in events if event.get("cat") == "cuda_runtime"]
    assert 0 < len(times) < 60
    assert any(start <= time <= end for time in times)
    assert any(event.get("cat") == "profiler_doctor" for event in events)
    assert "Cut to what a browser's viewer opens well: " in capsys.readouterr().out
    assert code == 0


def test_a_cut_file_without_the_trace_it_came_from_says_where_the_finding_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_run(tmp_path)
    diagnosis = document_of(folder / "diagnosis.json")
    monkeypatch.setattr(viewable, "LIMITS", Limits(held=3_000, kept=2_000))
    part = viewable.excerpt(tmp_path / "trace.json", (2_990_000, 2_995_000))
    assert part is not None
    annotated_trace.written_around(diagnosis, part, folder / "trace-with-findings.json.gz")
    monkeypatch.undo()

    _, code = fetched_meanwhile(folder, "LCH001")

    assert "the finding's place lies outside of what stayed" in capsys.readouterr().out
    assert code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere",), "nowhere is no trace and no folder with one."),
        ((), "latest is no trace and no folder with one."),
        (("trace.json", "--at", "LCH001"), "--at LCH001: no finding of that code has a place in this trace."),
    ],
)
def test_what_cannot_be_opened_is_a_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    TraceBuilder().op("aten::mm", 0, 100).write(tmp_path, "trace.json")
    command = [sys.executable, "-m", "profiler_doctor", "open", *words, "--no-browser"]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 2
    assert sentence in ended.stderr
