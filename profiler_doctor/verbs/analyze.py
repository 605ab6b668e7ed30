"""`profiler-doctor analyze TRACE…`: read what somebody else captured, and say what is in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.diagnosis import TOP_ROWS, Subject
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.sources import Job, traces
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.reports.writing import write_all
from profiler_doctor.verbs.choice import every_rule, selection
from profiler_doctor.verbs.output import Output, log_for_tensorboard, show, show_ranks, with_exit_code
from profiler_doctor.verbs.untried import examined

NOT_HERE = "the program is not here, only its trace; `profiler-doctor run` tries it"


@dataclass(frozen=True, kw_only=True)
class AnalyzeOptions:
    """What `analyze` was asked for."""

    inputs: tuple[str, ...]
    """Files, folders, archives, addresses, or `-`: several are the ranks of one job."""
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    output: Output


def analyze(options: AnalyzeOptions) -> ExitCode:
    """Read, examine, write the reports, show one. No fix is tried: the program is not here."""
    rules = every_rule()
    chosen = selection(rules.items, options.select, options.ignore)
    job = traces(options.inputs)
    documents = [
        with_exit_code(
            examined(_subject(trace, job, options.output.top), trace, rules, chosen, NOT_HERE), options.output.fail_on
        )
        for trace in job.traces
    ]
    try:
        _write(job, documents, options)
    finally:  # a disk that is full must not cost the user the answer
        _show(job, documents, options.output)
    return ExitCode(max(document.verdict.exit_code for document in documents))


def _subject(trace: Trace, job: Job, top: int) -> Subject:
    return Subject(
        name=Path(trace.source).name,
        command=("profiler-doctor", *sys.argv[1:]),
        environment=_environment(trace),
        health=job.health,
        top=max(top, TOP_ROWS),
    )


def _write(job: Job, documents: Sequence[Diagnosis], options: AnalyzeOptions) -> None:
    """The files of each rank in a folder of its own; those of a single trace right where the user said."""
    for trace in job.traces:
        log_for_tensorboard(_file_of(trace), _name(trace), options.output)
    if options.output.out is None:
        return
    for trace, document in zip(job.traces, documents, strict=True):
        folder = options.output.out if len(documents) == 1 else options.output.out / _name(trace)
        write_all(document, folder, _file_of(trace), find("profiler_doctor.reports", Report).items)


def _show(job: Job, documents: Sequence[Diagnosis], output: Output) -> None:
    if len(documents) == 1:
        show(documents[0], output, _file_of(job.traces[0]))
    else:
        show_ranks([(_name(trace), document) for trace, document in zip(job.traces, documents, strict=True)], output)


def _name(trace: Trace) -> str:
    return Path(trace.source).name if trace.rank is None else f"rank{trace.rank}"


def _file_of(trace: Trace) -> Path | None:
    """The file to annotate; what came out of an archive or a pipe is gone by now."""
    file = Path(trace.source)
    return file if file.is_file() else None


def _environment(trace: Trace) -> dict[str, object]:
    """A foreign trace says little of where it was captured; what it does say stands here."""
    said = {
        "format": trace.format,
        "producer": trace.producer,
        "devices": sorted({d.name for d in trace.devices if d.name}),
        "rank": trace.rank,
    }
    return {key: value for key, value in said.items() if value not in ("", [], None)}
