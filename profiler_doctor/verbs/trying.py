"""Try fixes on a program that was recorded: what can be tried is, and what cannot says why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median

from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Captured
from profiler_doctor.analyzer.capture.environment import machine
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.model import Trial
from profiler_doctor.analyzer.prescribe import affordable
from profiler_doctor.analyzer.trial import TrialProgress, TrialRequest, trials
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.analyzer.trial_verdict import Cure, unmade
from profiler_doctor.reports.wording import plural


@dataclass(frozen=True)
class Trying:
    """How far trials may go."""

    verify: bool
    timeout_s: float | None
    budget: Budget
    say: Callable[[str], None]
    """Told each phase as it begins."""
    asked: tuple[str, ...] = ()
    """Names of fixes to try whatever they cost."""
    fix_files: tuple[str, ...] = ()
    """The user's own files of fixes, absolute."""


def tried_on(captured: Captured, wanted: Sequence[Fix], trying: Trying) -> Iterator[Trial]:
    """A trial a fix. What cannot be tried is `not tried`, with the reason, and still brings its snippet."""
    reasons = {fix: _why_not(fix, captured, trying) for fix in wanted}
    possible = [fix for fix, reason in reasons.items() if reason is None]
    within = affordable(possible, trying.asked, trying.budget.left_s(time.monotonic()))
    if within:
        yield from trials(_request(captured, trying), within)
    for fix, reason in reasons.items():
        if fix not in within:
            yield unmade(Cure((fix,)), "not_tried", reason or _beyond(trying, len(within)))


def _beyond(trying: Trying, tried: int) -> str:
    return (
        f"the budget of {trying.budget.total_s:g} s was given to {plural(tried, 'other fix', 'other fixes')}; "
        "a larger --budget, or `profiler-doctor verify` with its name, tries it"
    )


def _why_not(fix: Fix, captured: Captured, trying: Trying) -> str | None:
    if not trying.verify:
        return "--no-verify asked for a diagnosis only"
    if why := _of_another_kind(fix, captured.facts):
        return why
    if fix.treat is not None and not captured.facts.roots:
        return "no module: the script calls no nn.Module with parameters that the fix could be applied to"
    if captured.source is None:
        return "no steps were found, and without steps two programs cannot take turns"
    return fix.applies(machine(captured.facts))


def _of_another_kind(fix: Fix, facts: Facts) -> str | None:
    if facts.onnx is not None:
        return _not_for_graphs(fix)
    if fix.of == "jax" and facts.jax is None:
        return "it changes programs of JAX, and the script does not use JAX, or uses torch beside it"
    if facts.jax is None:
        return None
    if fix.of == "torch":
        return "it changes programs of torch, and the script uses JAX"
    return None if facts.roots else "no function of the script's own was found that is called step after step"


def _not_for_graphs(fix: Fix) -> str | None:
    if fix.of == "torch":
        return "it changes programs of torch, and the target is a graph for ONNX Runtime"
    if find_spec("torch") is None:
        return "torch is not installed, and what compares answers in a trial needs it: pip install torch"
    return None


def _request(captured: Captured, trying: Trying) -> TrialRequest:
    assert captured.source is not None  # `_why_not` has seen to it
    folder = captured.folder / "trials"
    folder.mkdir(exist_ok=True)
    program = Program(
        target=captured.target,
        folder=folder,
        source=captured.source,
        machine=machine(captured.facts),
        usual_exit=captured.script_exit or 0,
        known_steps=captured.known_steps,
        step_s=median(captured.facts.step_ns or (0,)) / 1e9,
        silence_s=trying.timeout_s,
        budget_s=trying.budget.total_s,
        fix_files=trying.fix_files,
    )
    return TrialRequest(
        program=program,
        deadline_ns=int(trying.budget.end_s * 1e9),
        budget_s=trying.budget.total_s,
        progress=lambda stand: trying.say(_said(stand)),
    )


def _said(stand: TrialProgress) -> str:
    return f"trying {stand.fix} ({stand.number} of {stand.of}): pair of programs {stand.set_number}"
