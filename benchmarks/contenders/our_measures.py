"""Our reader, and the three breakdowns that HTA is asked for: time by device, idle time by cause, time by kernel."""

from pathlib import Path

from profiler_doctor.analyzer import plugins
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.measures.device import busy
from profiler_doctor.analyzer.measures.idle import idle_by_cause
from profiler_doctor.analyzer.measures.kernels import kernel_table
from profiler_doctor.analyzer.reading import FORMATS, read

plugins.find(FORMATS, Format)


def run(path: Path) -> int:
    trace = read(path)
    busy(trace), idle_by_cause(trace), kernel_table(trace)
    return len(trace.events)
