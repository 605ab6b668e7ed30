"""`profiler-doctor analyze TRACE`: read a trace that somebody else captured, and say what is in it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.diagnosis import Subject, diagnosis
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.kinds import Fix, Report
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.prescribe import prescribe
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.reports.writing import write_all
from profiler_doctor.verbs.choice import every_rule, selection
from profiler_doctor.verbs.output import Output, show, with_exit_code


@dataclass(frozen=True, kw_only=True)
class AnalyzeOptions:
    """What `analyze` was asked for."""

    trace: Path
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    output: Output


def analyze(options: AnalyzeOptions) -> ExitCode:
    """Read, examine, write the reports, show one. No fix is tried: the program is not here."""
    rules = every_rule()
    chosen = selection(rules.items, options.select, options.ignore)
    trace = read(options.trace)
    examination = prescribe(examine(trace, rules, chosen), find("profiler_doctor.fixes", Fix).items)
    subject = Subject(name=options.trace.name, command=tuple(sys.argv), environment=_environment(trace))
    document = with_exit_code(diagnosis(subject, trace, examination), options.output.fail_on)
    if options.output.out is not None:
        write_all(document, options.output.out, options.trace, find("profiler_doctor.reports", Report).items)
    show(document, options.output, options.trace)
    return ExitCode(document.verdict.exit_code)


def _environment(trace: Trace) -> dict[str, object]:
    """A foreign trace says little of where it was captured; what it does say stands here."""
    said = {
        "format": trace.format,
        "producer": trace.producer,
        "devices": sorted({d.name for d in trace.devices if d.name}),
    }
    return {key: value for key, value in said.items() if value}
