"""`profiler-doctor history FILE`: the results of checks over time, as text or as a page of charts."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from profiler_doctor.analyzer import history as past
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.gate import Check
from profiler_doctor.reports import history_page
from profiler_doctor.verbs.destination import put

GIT_S = 10.0


def history(file: Path, out: Path | None) -> ExitCode:
    """Print a line for each result, or write the page to `out`."""
    results = past.load(file)
    put(history_page.page(results) if out else history_page.text(results).encode("utf-8", "replace"), out)
    return ExitCode.FINE


def remember(check: Check, file: Path | None) -> None:
    """Add a check to the history that the user named, if one was named."""
    if file is not None:
        past.add(file, past.results_of(check, datetime.now(UTC), _revision()))


def _revision() -> str:
    """The commit that is checked out here; empty outside a repository."""
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
