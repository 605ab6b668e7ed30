"""Start the user's program with our hook in it, listen to it, and end all of it, whatever happens to us.

Call from the main thread: on Linux a child is killed when the thread that started it dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

import psutil

from profiler_doctor.analyzer.capture.plan import PLAN_VARIABLE, Plan
from profiler_doctor.analyzer.errors import UserError

INJECT = Path(__file__).parent / "inject"
GRACE_S = 3.0
"""From SIGTERM to SIGKILL: time for a script to close its files."""
LEAVING_S = 15.0
"""For a script that leaves when asked to: its `finally` blocks may save a checkpoint."""
REAP_S = 1.0
"""A process that was killed is gone by then."""
LISTEN_S = 0.2
GRAPH = ".onnx"
GRAPH_PROGRAM = "profiler_doctor.analyzer.capture.child.onnx_program"
"""What a graph is run by, step after step, as a script of the user's would."""
"""Longest wait for a message: how late a deadline may be noticed."""

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """The program as the user typed it: a script file (or folder, or zip), a module, or an ONNX graph.

    The arguments of a graph choose shapes: `batch=8`, `pixels=8x3x224x224`.
    """

    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    """Where it runs; None: where we do."""

    @property
    def command(self) -> tuple[str, ...]:
        """What follows `python`."""
        if self.is_graph:
            return ("-m", GRAPH_PROGRAM, self.script or "", *self.arguments)
        first = ("-m", self.module) if self.module is not None else (self.script or "",)
        return (*first, *self.arguments)

    @property
    def name(self) -> str:
        """What people call it: "model.py", "package.module"."""
        return self.module if self.module is not None else Path(self.script or "").name

    @property
    def is_graph(self) -> bool:
        """Whether it is a file for ONNX Runtime and not for Python."""
        return self.module is None and (self.script or "").endswith(GRAPH)

    def check(self) -> None:
        """Raise where there is nothing to run."""
        folder = self.folder or Path.cwd()
        if self.module is None and not (folder / (self.script or "")).exists():
            raise UserError(
                f"There is no file {self.script!r} in {folder}. Give the path of the script to run, "
                "or a module with -m."
            )


@dataclass(frozen=True)
class Wiring:
    """Where the program's streams go, and what pipe ends it is given beside ours."""

    log: Path | None = None
    """Standard output and error go to this file and standard input is empty; None: they are the user's."""
    output_to_stderr: bool = False
    """Keep our standard output for our document: the program's goes to standard error."""
    pipes: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """The user's program, running. Leaving its `with` block ends it and everything it started."""

    def __init__(self, process: subprocess.Popen[bytes], reports: int, control: int, own_session: bool) -> None:
        self.process = process
        self._reports = reports
        self._control = control
        self._own_session = own_session
        self._unread = b""
        self._family: list[psutil.Process] = []

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None or self._own_session:
            self.end()
        for descriptor in (self._reports, self._control):
            os.close(descriptor)

    def fileno(self) -> int:
        """The pipe its messages come from, for `select`."""
        return self._reports

    def messages(self, wait_s: float = 0.0) -> list[Message]:
        """What it has said since the last call, waiting for something to be said for at most `wait_s`."""
        ready, _, _ = select.select([self._reports], [], [], wait_s)
        if not ready:
            return []
        with contextlib.suppress(BlockingIOError):
            self._unread += os.read(self._reports, 1 << 20)
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines]

    def command(self, letter: str) -> None:
        """Ask for something at the next moment its main thread runs Python; see `child/control.py` for the letters."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.write(self._control, letter.encode())
                self.process.send_signal(signal.SIGURG)

    def poll(self) -> int | None:
        """Its exit status if it has ended: as `subprocess` gives it, negative for a signal."""
        return self.process.poll()

    def remember_family(self) -> None:
        """Note its descendants while it is there to tell them by; we are about to end it, and them."""
        if self.process.poll() is None:
            self._family += _tree(self.process.pid)

    def end_family(self, grace_s: float = GRACE_S) -> None:
        """End those that were noted and are still there. A script that ends by itself leaves what it leaves."""
        for process in self._family:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _, left = psutil.wait_procs(self._family, timeout=grace_s)
        born = [process for each in left for process in _tree(each.pid)]  # while it ignored SIGTERM
        for process in {*left, *born}:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._family = []

    def end(self, grace_s: float = GRACE_S) -> None:
        """End it and all its descendants: SIGTERM, and SIGKILL for what is left after `grace_s`."""
        self.remember_family()
        self.end_family(grace_s)
        if self._own_session:  # whoever lost his parent still carries the session's number
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        try:
            self.process.wait(REAP_S)
        except subprocess.TimeoutExpired:
            # a signal that interrupted `poll` can leave its lock taken for good, and `wait` would wait for that lock
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.process.pid, 0)


class Overseer(Protocol):
    """Who listens to a run and decides when it has gone on for long enough."""

    def hear(self, message: Message) -> None:
        """The child said something."""
        ...

    def verdict(self, child: Child) -> str:
        """Asked several times a second: "" to let it run on, or why it is to be ended now. May command the child."""
        ...


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    status: int
    """As `subprocess` gives it: negative for a signal."""
    ended_by_us: str = ""
    """The overseer's reason; empty: it ended by itself, or at a step as planned."""


def start(target: Target, plan: Plan, wiring: Wiring) -> Child:
    """Start the program, as `python` would, with the plan in it. `plan.pipes` come from `wiring.pipes`."""
    report_read, report_write = os.pipe()
    control_read, control_write = os.pipe()
    os.set_blocking(report_read, False)
    os.set_blocking(control_read, False)
    pipes = dict(wiring.pipes)
    told = replace(plan, parent=os.getpid(), report_fd=report_write, control_fd=control_read, pipes=pipes)
    kept = (report_write, control_read, *pipes.values())
    try:
        with _streams(wiring) as streams:
            process = subprocess.Popen(
                [sys.executable, *target.command],
                env=_environment(told, dict(wiring.environment)),
                pass_fds=kept,
                start_new_session=wiring.log is not None,
                cwd=target.folder,
                **streams,
            )
    finally:
        os.close(report_write)
        os.close(control_read)
    return Child(process, report_read, control_write, wiring.log is not None)


def watch(child: Child, overseer: Overseer) -> Ending:
    """Hand on its messages until it ends, or end it, politely first, where the overseer says so."""
    why, end_ns, leaving = "", 0, False
    while (status := child.poll()) is None:
        for message in child.messages(LISTEN_S):
            overseer.hear(message)
            if message["say"] == "ending":  # it is on its way out; let it close its files
                leaving, end_ns = True, time.monotonic_ns() + int(LEAVING_S * 1e9)
                child.remember_family()
        if not why and not leaving and (why := overseer.verdict(child)):
            end_ns = time.monotonic_ns() + int(2 * GRACE_S * 1e9)
            child.remember_family()
            child.command("e")
        left_ns = end_ns - time.monotonic_ns()
        if end_ns and not leaving and 0 < left_ns < GRACE_S * 1e9:
            child.command("E")
        if end_ns and left_ns <= 0:
            child.end()
    child.end_family()
    while said := child.messages():
        for message in said:
            overseer.hear(message)
    return Ending(status, why)


@contextlib.contextmanager
def ending_with_us() -> Iterator[None]:
    """While it lasts, SIGTERM and SIGHUP leave through our `finally` blocks, so that no child and no file is left."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _streams(wiring: Wiring) -> Iterator[dict[str, Any]]:
    if wiring.log is None:
        yield {"stdout": sys.stderr.fileno() if wiring.output_to_stderr else None}
        return
    with wiring.log.open("ab") as log:
        yield {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}


def _environment(plan: Plan, more: Mapping[str, str]) -> dict[str, str]:
    environment = {**os.environ, **more, PLAN_VARIABLE: plan.to_json()}
    theirs = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(INJECT), theirs] if theirs else [str(INJECT)])
    return environment


def _tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [*process.children(recursive=True), process]
    except psutil.Error:
        return []
