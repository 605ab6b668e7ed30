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
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.capture.folder import HOME, LATEST
from profiler_doctor.analyzer.errors import CannotWrite, ExitCode, UnreadableTrace, UserError
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.reports import annotated_trace, viewable
from profiler_doctor.reports.document import REPORT as DOCUMENT
from profiler_doctor.verbs.serving import LOOPBACK, VIEWER, OneFile, Served

PORT = 9001
"""The only port of this machine that the viewer's content policy lets it fetch from (its own tools use the same)."""
AROUND = 0.5
"""Of the finding's own length, shown on either side of it."""
COMFORTABLE_BYTES = 200_000_000
"""Profiles that we cannot cut, and are larger than this, the viewer may not hold."""
Stretch = tuple[int, int]


class NothingToOpen(UserError):
    """There is no trace where the user points."""


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """What `open` was asked for."""

    what: Path | None
    at: str | None
    browser: bool


def open_trace(options: OpenOptions) -> ExitCode:
    """Serve the trace, or what of it the viewer can hold, say where, open the browser, and end when it was fetched.

    Raises NothingToOpen, NoSuchPlace.
    """
    found, diagnosis = _found(options.what or Path(HOME) / LATEST)
    focus = viewable.place_of(diagnosis, options.at)
    with TemporaryDirectory(prefix="profiler-doctor-") as folder:
        trace = _fitting(found, diagnosis, focus, Path(folder))
        _tell_of_cut(trace, focus)
        name = "trace.json.gz" if trace.suffix == ".gz" else "trace.json"
        server, address = _served(trace, name, _view(focus))
        _tell(address, server.port)
        if options.browser:
            _browse(address)
        _say("Fetched: the file is in the browser now." if server.wait() else "Ended before the file was fetched.")
    return ExitCode.FINE


def _found(given: Path) -> tuple[Path, Diagnosis | None]:
    """The file to show, and the document beside it: the annotated file, but the recorded one where that was cut."""
    if given.is_file():
        return given, None
    written = given / (DOCUMENT.filename or "")
    names = (annotated_trace.REPORT.filename or "", "trace.json.gz", "trace.json")
    traces = [given / name for name in names if (given / name).is_file()]
    if not traces:
        raise NothingToOpen(f"{given} is no trace and no folder with one. Name a trace, or the folder of a run.")
    trace = traces[1] if len(traces) > 1 and viewable.cut_of(traces[0]) else traces[0]
    return trace, document.load(written) if written.is_file() else None


def _fitting(trace: Path, diagnosis: Diagnosis | None, focus: Stretch | None, folder: Path) -> Path:
    """The trace itself where the viewer can hold it, else a new file in the folder with a window of it."""
    if trace.stat().st_size > viewable.LIMITS.held / viewable.BEST_PACKED:
        _say("Looking how large this trace is.")
    try:
        part = viewable.excerpt(trace, focus or viewable.middle_step(diagnosis))
    except UnreadableTrace:  # a profile of another kind: the viewer may know it
        if trace.stat().st_size > COMFORTABLE_BYTES:
            _say("It is large for a browser: `trace_processor server http` from perfetto.dev reads it from outside.")
        return trace
    if part is None:
        return trace
    ours = None if trace.name == annotated_trace.REPORT.filename else diagnosis  # else they are in it already
    try:
        cut = annotated_trace.written_around(ours, part, folder / "trace.json.gz")
    except OSError as error:
        raise CannotWrite(f"The cut trace cannot be written to {folder}: {error.strerror or error}.") from error
    _say(annotated_trace.remark(cut))
    return cut


def _tell_of_cut(trace: Path, focus: Stretch | None) -> None:
    """Say so where the file was cut before, and what was asked for is not in what stayed."""
    cut = viewable.cut_of(trace)
    if cut is not None and focus is not None and not (cut.window_ns[0] <= focus[0] <= cut.window_ns[1]):
        _say(
            "This file was cut, and the finding's place lies outside of what stayed: open the trace itself to see it "
            "(`profiler-doctor open TRACE`)."
        )


def _view(focus: Stretch | None) -> dict[str, int]:
    """The stretch to show, in the trace's nanoseconds. Empty: all of it."""
    if focus is None:
        return {}
    margin = int((focus[1] - focus[0]) * AROUND) + 1
    return {"visStart": max(focus[0] - margin, 0), "visEnd": focus[1] + margin}


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
