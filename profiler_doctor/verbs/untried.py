"""A diagnosis without trials, for a program that nobody can run from here: each cure comes with the reason why."""

from __future__ import annotations

from profiler_doctor.analyzer.diagnosis import Subject, diagnosis
from profiler_doctor.analyzer.engine import Selection, examine
from profiler_doctor.analyzer.kinds import Fix, Machine, Rule
from profiler_doctor.analyzer.measures.share import trains
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import Found, find
from profiler_doctor.analyzer.prescribe import prescribe, to_try
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.analyzer.trial_verdict import Cure, unmade
from profiler_doctor.reports.ranking import FOR_INFERENCE_ONLY

TRAINING = Machine(device="cuda", torch=None, cpu_flags=frozenset(), cpus=1, threads=None, has_root=True, training=True)
"""A machine that is asked about training alone."""


def examined(subject: Subject, trace: Trace, rules: Found[Rule], chosen: Selection, not_here: str) -> Diagnosis:
    """What the chosen rules find, and `not_here` for every cure that the program itself does not rule out."""
    fixes = find("profiler_doctor.fixes", Fix).items
    examination = prescribe(examine(trace, rules, chosen), fixes)
    wanted = to_try(examination, fixes)
    untried = tuple(unmade(Cure((fix,)), "not_tried", _ruled_out(fix, trace) or not_here) for fix in wanted)
    return diagnosis(subject, trace, examination, untried)


def _ruled_out(fix: Fix, trace: Trace) -> str | None:
    """Nobody knows the machine that the program would run on; that it trains is seen, and rules some fixes out."""
    reason = fix.applies(TRAINING) if trains(trace) else None
    return reason if reason is not None and reason.startswith(FOR_INFERENCE_ONLY) else None
