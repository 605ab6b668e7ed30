"""`profiler-doctor report DOCUMENT`: a finished diagnosis shown again, from its JSON alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.reports.writing import write_all
from profiler_doctor.verbs.output import BadOption, output, show


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What `report` was asked for."""

    document: Path
    format_: str
    out: Path | None
    top: int


def report(options: ReportOptions) -> ExitCode:
    """Read the document, write the reports where asked, show one. Raises UnreadableDocument, BadOption."""
    shown = output(format_=options.format_, out=options.out, top=options.top, quiet=True, fail_on=None)
    if shown.report.needs_trace:
        raise BadOption(f"--format {options.format_}: this one needs the trace; `profiler-doctor analyze` writes it.")
    diagnosis = document.load(_file(options.document))
    if options.out is not None:
        write_all(diagnosis, options.out, None, find("profiler_doctor.reports", Report).items)
    show(diagnosis, shown, None)
    return ExitCode.FINE


def _file(given: Path) -> Path:
    return given / document.FILENAME if given.is_dir() else given
