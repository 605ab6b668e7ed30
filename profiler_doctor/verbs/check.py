"""`profiler-doctor check SCRIPT`: did performance get worse? Counters say it exactly, time only where a test does."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from profiler_doctor.analyzer import baseline, checking, stored_time
from profiler_doctor.analyzer.baseline import Baseline, Entry, NoBaseline
from profiler_doctor.analyzer.capture import launch
from profiler_doctor.analyzer.capture.counted import Request
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.gate import Check, Checked, budgets
from profiler_doctor.analyzer.measuring import Measured, machine_ns, measured
from profiler_doctor.analyzer.workloads import Workload, share, workloads
from profiler_doctor.verbs.check_output import CheckOutput, show
from profiler_doctor.verbs.choice import every_rule, selection
from profiler_doctor.verbs.history import remember
from profiler_doctor.verbs.output import BadOption
from profiler_doctor.verbs.progress import Progress, progress


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What `check` was asked for; what is None was not said, and the settings or the defaults hold."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]
    names: tuple[str, ...]
    """Workloads of the settings to check; none: all, where no script is given."""
    base: str | None
    baseline: Path | None
    update: bool
    step: str | None
    windows: int | None
    window_steps: int | None
    time: str | None
    no_time: bool
    budget_s: float
    timeout_s: float | None
    strict: bool
    history: Path | None
    output: CheckOutput


@dataclass(frozen=True)
class Checking:
    """One run of the verb."""

    options: CheckOptions
    folder: Path
    waiting: Progress
    end_s: float

    def request(self, workload: Workload) -> Request:
        """How a workload's program is to be counted."""
        return Request(
            target=Target(script=workload.script, module=workload.module, arguments=workload.arguments),
            end_s=self.end_s,
            windows=workload.windows,
            window_steps=workload.window_steps,
            timed=stored_time.TIMED_STEPS if workload.time is not None and self.options.base is None else 0,
            step_name=workload.step,
            silence_s=self.options.timeout_s,
            say=self.waiting.say,
        )

    def measured(self, request: Request, name: str) -> Measured:
        """A program's counters as they are now; `name` is that of a folder for what is recorded on the way."""
        rules = every_rule()
        return measured(request, self.folder / name, rules, selection(rules.items, (), ()))


def check(options: CheckOptions) -> ExitCode:
    """Check each workload, show what changed, and answer with the exit code.

    Raises BadOption where two options contradict each other.
    """
    if options.base is not None and (options.update or options.baseline is not None):
        other = "--update" if options.update else "--baseline"
        raise BadOption(f"--base and {other} exclude each other: a revision needs no baseline. Leave one of them out.")
    wanted = _wanted(options)
    for workload in wanted:
        Target(script=workload.script, module=workload.module).check()
    with launch.ending_with_us(), _running(options) as run:
        if options.update:
            done = _updated(run, wanted)
        elif options.base is not None:
            from profiler_doctor.verbs.check_base import against_base

            done = against_base(run, wanted)
        else:
            done = _against_baseline(run, wanted)
    show(done, options.output)
    remember(done, options.history)
    return done.exit_code


def _wanted(options: CheckOptions) -> tuple[Workload, ...]:
    """What to check: the script that was given, else the workloads of the settings."""
    common, named = workloads(Path.cwd())
    if options.script is not None or options.module is not None:
        name = options.names[0] if options.names else Path(options.script or options.module or "").stem
        given = replace(common, name=name, script=options.script, module=options.module, arguments=options.arguments)
        return (_overridden(given, options),)
    known = {workload.name: workload for workload in named}
    missing = [name for name in options.names if name not in known]
    if missing or not known:
        listed = ", ".join(sorted(known)) or "none"
        raise UserError(
            f"There is no workload {missing[0]!r} in [tool.profiler-doctor.check.workloads] (there is {listed})."
            if missing
            else "Name the script to check, or write workloads into [tool.profiler-doctor.check.workloads]."
        )
    return tuple(_overridden(known[name], options) for name in options.names or known)


def _overridden(workload: Workload, options: CheckOptions) -> Workload:
    said = {"step": options.step, "windows": options.windows, "window_steps": options.window_steps}
    changed = replace(workload, **{key: value for key, value in said.items() if value is not None})  # type: ignore[arg-type]  # fields, by name
    if options.no_time:
        return replace(changed, time=None)
    return changed if options.time is None else replace(changed, time=share(options.time, "--time"))


@contextmanager
def _running(options: CheckOptions) -> Iterator[Checking]:
    with (
        progress(options.budget_s, options.output.quiet) as waiting,
        TemporaryDirectory(prefix="profiler-doctor-") as folder,
    ):
        yield Checking(options, Path(folder).resolve(), waiting, time.monotonic() + options.budget_s)


def _updated(run: Checking, wanted: tuple[Workload, ...]) -> Check:
    """Write what the workloads do now as the baseline."""
    entries: dict[str, Entry] = {}
    done, around = list[Checked](), dict[str, object]()
    for workload in wanted:
        before_ns = machine_ns()
        entries[workload.name], head = checking.entry_of(
            workload, run.measured(run.request(workload), workload.name), before_ns
        )
        around = dict(head.circumstances)
        limits = budgets(head.counters, workload.limits, workload.forbid)
        command = head.request.target.command
        counted = dict(head.counters.exact)
        written = Checked(name=workload.name, command=command, against="nothing", counters=counted, updated=True)
        done.append(replace(written, budgets=limits))
    gone = baseline.lost(_path(run.options))
    path = baseline.save(_path(run.options), entries)
    if not run.options.output.quiet:
        sys.stderr.write(f"The baseline {path} was written; commit it. {gone}".rstrip() + "\n")
    return Check(workloads=tuple(done), environment=around, strict=run.options.strict)


def _against_baseline(run: Checking, wanted: tuple[Workload, ...]) -> Check:
    path = _path(run.options)
    known, problem = Baseline(), ""
    try:
        known = baseline.load(path)
    except NoBaseline as error:
        problem = str(error).rstrip(".")
    done, around = list[Checked](), dict[str, object]()
    for workload in wanted:
        checked, circumstances = _one(run, workload, known, problem)
        done.append(replace(checked, against=str(path)))
        around = dict(circumstances) or around
    return Check(workloads=tuple(done), environment=around, strict=run.options.strict)


def _one(run: Checking, workload: Workload, known: Baseline, problem: str) -> tuple[Checked, Mapping[str, object]]:
    entry = None
    if not problem:
        try:
            entry = baseline.entry(known, workload.name, _path(run.options))
        except NoBaseline as error:
            problem = str(error).rstrip(".")
    if entry is None and not (workload.limits or workload.forbid):
        command = run.request(workload).target.command
        return Checked(name=workload.name, command=command, against="", problem=problem), {}
    before_ns = machine_ns()
    head = run.measured(run.request(workload), workload.name)
    if entry is not None:
        checked, head = checking.against_baseline(workload, head, entry, before_ns)
        return checked, head.circumstances
    checking.check_names(workload, head.counters)
    limits = budgets(head.counters, workload.limits, workload.forbid)
    command = head.request.target.command
    counted = dict(head.counters.exact)
    checked = Checked(name=workload.name, command=command, against="", counters=counted, problem=problem)
    return replace(checked, budgets=limits), head.circumstances


def _path(options: CheckOptions) -> Path:
    return options.baseline or baseline.FILE
