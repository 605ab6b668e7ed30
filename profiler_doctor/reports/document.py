"""The whole document as JSON, for programs that want to act on it."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.document import FILENAME, encode
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis


def render(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:  # noqa: ARG001  # the kind's signature
    """The document as docs/diagnosis.schema.json describes it."""
    return encode(diagnosis)


REPORT = Report(name="json", filename=FILENAME, render=render)
