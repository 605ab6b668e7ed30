"""Our reader: the trace in columns."""

from pathlib import Path

from profiler_doctor.analyzer import plugins
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.reading import FORMATS, read

plugins.find(FORMATS, Format)


def run(path: Path) -> int:
    return len(read(path).events)
