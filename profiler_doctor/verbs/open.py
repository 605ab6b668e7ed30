"""`profiler-doctor open`: a trace in Perfetto, at the finding, without a copy of it leaving this machine."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import webbrowser
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import urlencode

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.capture.folder import HOME, LATEST
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.verdict import found_outcomes
from profiler_doctor.reports import annotated_trace
from profiler_doctor.reports.document import REPORT as DOCUMENT
from profiler_doctor.verbs.serving import LOOPBACK, VIEWER, OneFile, Served

PORT = 9001
"""The only port of this machine that the viewer's content policy lets it fetch from (its own tools use the same)."""
AROUND = 0.5
"""Of the finding's own length, shown on either side of it."""
COMFORTABLE_BYTES = 200_000_000
"""Packed traces above this make the viewer, a 32-bit program, run out of memory."""


class NothingToOpen(UserError):
    """There is no trace where the user points."""


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """What `open` was asked for."""

    what: Path | None
    at: str | None
    browser: bool


def open_trace(options: OpenOptions) -> ExitCode:
    """Serve the trace, say where, open the browser, and end when it was fetched. Raises NothingToOpen."""
    trace, diagnosis = _found(options.what or Path(HOME) / LATEST)
    name = "trace.json.gz" if trace.suffix == ".gz" else "trace.json"
    place = _place(diagnosis, options.at)
    if trace.stat().st_size > COMFORTABLE_BYTES:
        _say(
            "This trace is large for a browser: `trace_processor server http` from perfetto.dev reads it from outside."
        )
    server, address = _served(trace, name, place)
    _tell(address, server.port)
    if options.browser:
        _browse(address)
    _say("Fetched: the file is in the browser now." if server.wait() else "Ended before the file was fetched.")
    return ExitCode.FINE


def _found(given: Path) -> tuple[Path, Diagnosis | None]:
    """The file to show, the annotated one where there is one, and the document beside it."""
    if given.is_file():
        return given, None
    written = given / (DOCUMENT.filename or "")
    names = (annotated_trace.REPORT.filename or "", "trace.json.gz", "trace.json")
    trace = next((given / name for name in names if (given / name).is_file()), None)
    if trace is None:
        raise NothingToOpen(f"{given} is no trace and no folder with one. Name a trace, or the folder of a run.")
    return trace, document.load(written) if written.is_file() else None


def _place(diagnosis: Diagnosis | None, at: str | None) -> dict[str, int]:
    """The stretch to show, in the trace's nanoseconds: the first one of the finding. Empty: all of it."""
    findings = [
        (outcome.code, finding)
        for outcome in (found_outcomes(diagnosis.outcomes) if diagnosis else ())
        for finding in outcome.findings
        if finding.evidence.get("intervals_ns")
    ]
    chosen = [finding for code, finding in findings if at in (None, code)]
    if at is not None and not chosen:
        known = ", ".join(dict.fromkeys(code for code, _ in findings)) or "none"
        raise NothingToOpen(f"--at {at}: no finding of that code has a place in this trace. Those that have: {known}.")
    if not chosen:
        return {}
    start, end = _first_interval(chosen[0].evidence["intervals_ns"])
    margin = int((end - start) * AROUND) + 1
    return {"visStart": max(start - margin, 0), "visEnd": end + margin}


def _first_interval(intervals: object) -> tuple[int, int]:
    assert isinstance(intervals, list | tuple)
    start, end = intervals[0]
    return int(start), int(end)


def _served(trace: Path, name: str, place: dict[str, int]) -> tuple[OneFile, str]:
    """The server, and the address to open: the viewer's own, or where its port is taken a page of ours that hands over
    the file."""
    try:
        server = OneFile(PORT, Served(trace, name))
    except OSError:
        page = resources.files("profiler_doctor.reports").joinpath("templates/handover.html").read_bytes()
        server = OneFile(0, Served(trace, name, {"/": page.replace(b"TRACE_NAME", name.encode())}))
        return server, f"http://{LOOPBACK}:{server.port}/"
    query = urlencode({"url": f"http://{LOOPBACK}:{PORT}/{name}", **place}, safe=":/")
    return server, f"{VIEWER}/#!/?{query}"


def _tell(address: str, port: int) -> None:
    _say(f"Open {address}")
    if "SSH_CONNECTION" in os.environ:
        _say(f"From the machine you sit at, first: ssh -L {port}:{LOOPBACK}:{port} {_user()}@{socket.gethostname()}")
    _say("It is served to this machine only, once. Ctrl-C ends it.")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "user"


def _browse(address: str) -> None:
    try:
        opened = webbrowser.open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        _say("No browser could be started here: open the address yourself.")


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()
