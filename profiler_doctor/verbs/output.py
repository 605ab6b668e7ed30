"""Where a verb's answer goes: files into a folder, one format to standard output, the exit code to the shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profiler_doctor.analyzer.engine import matters
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.verdict import LEVELS, found_outcomes, level_of
from profiler_doctor.reports import wording
from profiler_doctor.reports.tensorboard import write_log
from profiler_doctor.reports.text import print_text


@dataclass(frozen=True, kw_only=True)
class Output:
    """How the user wants to be answered."""

    report: Report
    out: Path | None
    top: int
    quiet: bool
    fail_on: str | None
    tensorboard: Path | None = None
    """Folder of a TensorBoard log directory to put the trace into."""

    @property
    def for_machines(self) -> bool:
        """Standard output must hold the document alone, so the script's own output goes to standard error."""
        return self.report.name != "text"


class BadOption(UserError):
    """An option's value is none of those we know."""


def output(*, format_: str, out: Path | None, top: int, quiet: bool, fail_on: str | None) -> Output:
    """The checked output options. Raises BadOption with the values that exist, or for a place that takes no files."""
    reports = {report.name: report for report in find("profiler_doctor.reports", Report).items}
    if format_ not in reports:
        raise BadOption(f"--format {format_}: there is no such report. Choose from {', '.join(sorted(reports))}.")
    if fail_on not in (None, "found", *LEVELS):
        raise BadOption(f"--fail-on {fail_on}: choose from found, {', '.join(LEVELS)}.")
    check_folder(out, "--out")
    return Output(report=reports[format_], out=out, top=top, quiet=quiet, fail_on=fail_on)


def check_folder(folder: Path | None, option: str) -> None:
    """Raises BadOption where no folder can be made of it: before the work is done that is to be written there."""
    if folder is None:
        return
    nearest = next((path for path in (folder, *folder.absolute().parents) if os.path.lexists(path)), None)
    if nearest is not None and not nearest.is_dir():
        raise BadOption(f"{option} {folder}: {nearest} is no folder. Name another place.")
    if nearest is not None and not os.access(nearest, os.W_OK | os.X_OK):
        raise BadOption(f"{option} {folder}: nothing may be written in {nearest}. Name another place.")


def logged(options: Output, folder: Path | None) -> Output:
    """The same, with a TensorBoard log directory to put the trace into. Raises BadOption where none can be made."""
    check_folder(folder, "--tensorboard")
    return replace(options, tensorboard=folder)


def with_exit_code(diagnosis: Diagnosis, fail_on: str | None) -> Diagnosis:
    """The document with the exit code that `--fail-on` asks for: 1 when met, else 0."""
    code = ExitCode.FINDINGS if fail_on and _met(diagnosis, fail_on) else ExitCode.FINE
    return replace(diagnosis, verdict=replace(diagnosis.verdict, exit_code=int(code)))


def _met(diagnosis: Diagnosis, fail_on: str) -> bool:
    found = [finding for outcome in diagnosis.outcomes if outcome.status == "found" for finding in outcome.findings]
    if fail_on == "found":
        return any(matters(finding) for finding in found)
    wanted = LEVELS[LEVELS.index(fail_on) :]
    return any(level_of(finding) in wanted for finding in found)


def show(diagnosis: Diagnosis, options: Output, trace_file: Path | None) -> None:
    """The chosen report on standard output; the text one suits itself to the terminal: width, colour, `--top`."""
    sys.stdout.flush()
    if not options.for_machines:
        print_text(diagnosis, sys.stdout, options.top, options.out / "report.html" if options.out else None)
        return
    sys.stdout.buffer.write(options.report.render(diagnosis, trace_file))
    sys.stdout.buffer.flush()


def log_for_tensorboard(trace_file: Path | None, name: str, options: Output) -> None:
    """Put the trace into the log directory that was asked for; what has no trace file is named on standard error."""
    if options.tensorboard is None:
        return
    if trace_file is None:
        sys.stderr.write(f"{name}: there is no trace file to log for TensorBoard.\n")
        return
    write_log(trace_file, name, options.tensorboard)


def show_ranks(ranks: Sequence[tuple[str, Diagnosis]], options: Output) -> None:
    """Several traces of one job: a list of documents for machines, a line a rank and the slowest whole for people."""
    if options.report.name == "json":
        sys.stdout.write(f"[{','.join(options.report.render(each, None).decode() for _, each in ranks)}]\n")
        return
    name, slowest = max(ranks, key=lambda rank: rank[1].totals.step_ns.median or rank[1].totals.span_ns)
    sys.stdout.write(f"{len(ranks)} ranks of one job. Below them the slowest, {name}, in full.\n\n")
    for each, document in ranks:
        step_ns, busy = document.totals.step_ns.median, document.totals.busy_ns / (document.totals.span_ns or 1)
        took = wording.duration(step_ns) if step_ns is not None else "no steps"
        found = ", ".join(outcome.code for outcome in found_outcomes(document.outcomes)) or "nothing found"
        sys.stdout.write(f"  {each:12} {took:>10} a step   device busy {busy:4.0%}   {found}\n")
    sys.stdout.write("\n")
    show(slowest, options, None)
