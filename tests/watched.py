"""Run small scripts plainly and watched, for the tests of capture."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.record import capture
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace

WATCH = """
import sys
from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.captured import Options
from profiler_doctor.analyzer.capture.record import capture
target = Target(module=sys.argv[2], arguments=tuple(sys.argv[3:])) if sys.argv[1] == "-m" else (
    Target(script=sys.argv[1], arguments=tuple(sys.argv[2:])))
captured = capture(target, Options(budget=Budget.start(300.0), stacks=False))
print("SCRIPT EXIT", captured.script_exit, file=sys.stderr)
"""
"""The whole capture in a process of its own, its streams in our hands."""


def write(folder: Path, text: str, name: str = "script.py") -> str:
    """A script in `folder`; its path relative to it."""
    (folder / name).write_text(dedent(text))
    return name


def recorded(script: str, *arguments: str, **options: Any) -> Captured:
    """Capture a script of the working directory; two minutes, no stacks, unless said otherwise."""
    budget = Budget.start(options.pop("budget_s", 240.0))
    return capture(Target(script=script, arguments=arguments), Options(budget=budget, **{"stacks": False, **options}))


def watched(folder: Path, script: str, name: str = "reader.py") -> Trace:
    """The recording of a real run of a script in `folder`, joined with what was seen beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        captured = recorded(write(folder, script, name), stacks=True)
        assert captured.trace_file is not None
        assert captured.stacks_file is not None
        return read(captured.trace_file).with_capture(captured.facts, read(captured.stacks_file))


def run(command: list[str], folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """A python process in `folder`, to its end."""
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=240, check=False, **more
    )


def events(trace: Path) -> list[Mapping[str, Any]]:
    """The events of a packed trace."""
    with gzip.open(trace) as file:
        found: list[Mapping[str, Any]] = json.load(file)["traceEvents"]
    return found


def ranges(trace: Path) -> Counter[str]:
    """How often each range stands in a packed trace."""
    return Counter(event["name"] for event in events(trace) if event.get("cat") == "user_annotation")


def alive(text: str) -> list[int]:
    """Processes that carry `text` in their command line, without this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in command:
                found.append(int(entry.name))
    return found
