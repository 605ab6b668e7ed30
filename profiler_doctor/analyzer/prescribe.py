"""Which fixes cure what was found: read from the fixes' own lists, so that the relation is written down once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from profiler_doctor.analyzer.engine import Examination
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.kinds import COMPILER_RANK, Fix

TRIAL_S = 20.0
"""Least time that decides a large gain: three pairs of processes, and 40 blocks of 50 ms each side."""
COMPILER_TRIAL_S = 40.0
"""... and a first call that takes as long again."""


class UnknownFix(UserError):
    """`--try` names a fix that does not exist."""


def prescribe(examination: Examination, fixes: Sequence[Fix]) -> Examination:
    """The same examination, each finding with the names of the fixes that may cure it, cheapest first."""
    known = sorted((fix for fix in fixes if not fix.hidden), key=_place)
    outcomes = []
    for outcome in examination.outcomes:
        cures = tuple(fix.name for fix in known if outcome.code in fix.cures)
        findings = tuple(replace(finding, cures=cures) for finding in outcome.findings)
        outcomes.append(replace(outcome, findings=findings))
    return replace(examination, outcomes=tuple(outcomes))


def named(fixes: Sequence[Fix], names: Sequence[str]) -> tuple[Fix, ...]:
    """The fixes of these names, hidden ones too. Raises UnknownFix with the nearest names."""
    by_name = {fix.name: fix for fix in fixes}
    for name in names:
        if name not in by_name:
            near = get_close_matches(name, [fix.name for fix in fixes if not fix.hidden], n=3, cutoff=0.5)
            meant = f" Is it {' or '.join(near)}?" if near else ""
            raise UnknownFix(f"--try {name}: there is no such fix.{meant} `profiler-doctor explain fixes` lists them.")
    return tuple(by_name[name] for name in names)


def to_try(
    examination: Examination, fixes: Sequence[Fix], asked: Sequence[str] = (), *, graph: bool = False
) -> tuple[Fix, ...]:
    """The fixes for what was found and matters, and those asked for by name. Raises UnknownFix.

    Of a `graph` for ONNX Runtime all settings of its session: no rule can tell what they are worth, they are few.
    Cheapest first, and other settings of a fix after all of them: a budget that is short is cut at the end.
    """
    asked_for = named(fixes, asked)
    found = {outcome.code for outcome in examination.outcomes if outcome.status == "found"}
    fitting = [fix for fix in fixes if not fix.hidden and (fix.of == "onnx") == graph]
    wanted = [fix for fix in fixes if fix in asked_for or (fix in fitting and (graph or found & set(fix.cures)))]
    return tuple(sorted(wanted, key=_place))


def affordable(fixes: Sequence[Fix], asked: Sequence[str], left_s: float) -> tuple[Fix, ...]:
    """Those of `fixes`, in the order given, that `left_s` seconds are enough for; those asked for are always kept.

    A few fixes judged well are worth more than many that end undecided.
    """
    kept: list[Fix] = []
    for fix in sorted(fixes, key=lambda fix: fix.name not in asked):
        left_s -= COMPILER_TRIAL_S if fix.rank >= COMPILER_RANK else TRIAL_S
        if fix.name in asked or left_s >= 0 or not kept:
            kept.append(fix)
    return tuple(fix for fix in fixes if fix in kept)


def _place(fix: Fix) -> tuple[bool, int, str]:
    return bool(fix.variant_of), fix.rank, fix.name
