"""`profiler-doctor run SCRIPT`: record it, say why it is slow, try the cures on it, and tell the truth about them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from profiler_doctor.analyzer.capture import launch
from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.failing import ended_how
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.record import capture
from profiler_doctor.analyzer.diagnosis import TOP_ROWS, Subject, diagnosis
from profiler_doctor.analyzer.engine import Examination, examine
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Fix, Report
from profiler_doctor.analyzer.model import Diagnosis, HealthNote
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.prescribe import named, prescribe, to_try
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace, empty_trace
from profiler_doctor.reports.writing import write_all
from profiler_doctor.verbs.choice import every_rule, selection
from profiler_doctor.verbs.output import Output, log_for_tensorboard, show, with_exit_code
from profiler_doctor.verbs.progress import Progress, progress
from profiler_doctor.verbs.trying import Trying, tried_on


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What `run` was asked for."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]
    steps: int
    step_name: str | None
    budget_s: float
    timeout_s: float | None
    output: Output
    verify: bool = True
    attempts: tuple[str, ...] = ()
    """Fixes to try whatever is found."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """The program to run. Raises UserError where none was named."""
        if self.script is None and self.module is None:
            raise UserError("Name the script to run, or a module with -m. `profiler-doctor run --help` shows how.")
        return Target(script=self.script, module=self.module, arguments=self.arguments)


def run(options: RunOptions) -> ExitCode:
    """The whole road: capture, read, examine, prescribe, try, report."""
    fixes = find("profiler_doctor.fixes", Fix).items
    named(fixes, options.attempts)
    graph = options.target.is_graph
    road = diagnosed(options, lambda examination: to_try(examination, fixes, options.attempts, graph=graph))
    return reported(options, road, _judged(road.document, road.captured, options.output.fail_on))


@dataclass(frozen=True)
class Road:
    """What a verb that runs the script has in hand before it reports."""

    document: Diagnosis
    captured: Captured


def diagnosed(
    options: RunOptions, wanted: Callable[[Examination], Sequence[Fix]], fix_files: tuple[str, ...] = ()
) -> Road:
    """Capture, examine, and try the fixes that `wanted` picks; `fix_files` are absolute paths of the user's own."""
    rules, fixes = every_rule(), find("profiler_doctor.fixes", Fix).items
    chosen = selection(rules.items, options.select, options.ignore)
    budget = Budget.start(options.budget_s, verify=options.verify)
    with launch.ending_with_us(), progress(options.budget_s, options.output.quiet) as waiting:
        captured = capture(options.target, _recording(options, budget, waiting))
        waiting.say("reading what was recorded")
        trace = _joined(captured)
        fitting = [fix for fix in fixes if _fits(fix, captured)]
        examination = prescribe(examine(trace, rules, chosen), fitting)
        trying = Trying(options.verify, options.timeout_s, budget, waiting.say, options.attempts, fix_files)
        asked = [fix for fix in wanted(examination) if _fits(fix, captured) or fix.name in options.attempts]
        tried = tuple(tried_on(captured, asked, trying))
        return Road(diagnosis(_subject(captured, options), trace, examination, tried), captured)


def _fits(fix: Fix, captured: Captured) -> bool:
    """Whether it treats programs of this kind at all."""
    if captured.target.is_graph:
        return fix.of == "onnx"
    return fix.of in ("any", "jax" if captured.facts.jax is not None else "torch")


def reported(options: RunOptions, road: Road, document: Diagnosis) -> ExitCode:
    """Write all files and show the answer; the exit code is the document's."""
    folder = options.output.out or road.captured.folder
    try:
        with launch.ending_with_us():
            write_all(document, folder, road.captured.trace_file, find("profiler_doctor.reports", Report).items)
            log_for_tensorboard(road.captured.trace_file, road.captured.target.name, options.output)
    finally:  # a disk that is full must not cost the user the answer
        show(document, replace(options.output, out=folder), road.captured.trace_file)
    return ExitCode(document.verdict.exit_code)


def _recording(options: RunOptions, budget: Budget, waiting: Progress) -> Options:
    return Options(
        budget=budget,
        steps=options.steps,
        step_name=options.step_name,
        timeout_s=options.timeout_s,
        output_to_stderr=options.output.for_machines,
        progress=lambda phase, _: waiting.say(phase),
    )


def _joined(captured: Captured) -> Trace:
    """The recorded trace with the facts and the stacks that were recorded beside it."""
    trace = read(captured.trace_file) if captured.trace_file else empty_trace(captured.target.name)
    return trace.with_capture(captured.facts, read(captured.stacks_file) if captured.stacks_file else None)


def _subject(captured: Captured, options: RunOptions) -> Subject:
    return Subject(
        name=captured.target.name,
        command=("profiler-doctor", *sys.argv[1:]),
        environment=captured.environment,
        capture=captured.summary(),
        health=tuple(_notes(captured)),
        top=max(options.output.top, TOP_ROWS),
    )


def _notes(captured: Captured) -> Iterator[HealthNote]:
    for sentence in captured.facts.cut:
        yield HealthNote(code="CUT", message=sentence)
    if captured.script_exit:
        yield HealthNote(code="SCRIPT-FAILED", message=f"The script {ended_how(captured.script_exit)}.")
    if captured.facts.onnx is not None:
        yield HealthNote(code="INPUTS", message=captured.facts.onnx.inputs)
    if captured.source is None:
        message = "No steps were found, so times and shares are of the recorded window. --step NAME names a range."
        yield HealthNote(code="NO-STEPS", message=message)


def _judged(document: Diagnosis, captured: Captured, fail_on: str | None) -> Diagnosis:
    """With our exit code: a script that failed by itself comes before anything that was found in it."""
    if captured.script_exit:
        return replace(document, verdict=replace(document.verdict, exit_code=int(ExitCode.UNUSABLE)))
    return with_exit_code(document, fail_on)
