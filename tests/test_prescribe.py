"""From findings to the fixes that are tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profiler_doctor.analyzer.engine import Examination
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.model import Finding, RuleOutcome, Stake, Status
from profiler_doctor.analyzer.prescribe import UnknownFix, affordable, prescribe, to_try


def _fix(name: str, rank: int, *cures: str, hidden: bool = False) -> Fix:
    return Fix(name=name, doc="A fix.", cures=cures, snippet="", changes_numbers="", rank=rank, hidden=hidden)


FIXES = (_fix("dear", 9, "AAA001", "BBB001"), _fix("cheap", 1, "AAA001"), _fix("secret", 0, "AAA001", hidden=True))


def _examination(**statuses: Status) -> Examination:
    finding = Finding(message="seen", stake=Stake())
    outcomes = tuple(RuleOutcome(code=c, name=c, status=s, findings=(finding,)) for c, s in statuses.items())
    return Examination(outcomes=outcomes, health=(), joint=Stake())


def test_a_finding_names_its_cures_cheapest_first_and_no_hidden_one() -> None:
    prescribed = prescribe(_examination(AAA001="found"), FIXES)

    assert prescribed.outcomes[0].findings[0].cures == ("cheap", "dear")


def test_only_cures_of_what_was_found_are_tried() -> None:
    assert [fix.name for fix in to_try(_examination(AAA001="clean", BBB001="found"), FIXES)] == ["dear"]


def test_a_fix_asked_for_by_name_is_tried_whatever_was_found() -> None:
    tried = to_try(_examination(AAA001="clean"), FIXES, ("secret", "cheap"))

    assert [fix.name for fix in tried] == ["secret", "cheap"]


@pytest.mark.parametrize(
    ("asked", "said"), [("chaep", r"fix\. Is it cheap\? `"), ("nope", r"fix\. `profiler-doctor explain fixes`")]
)
def test_a_name_that_is_no_fix_is_refused_with_the_nearest_names(asked: str, said: str) -> None:
    with pytest.raises(UnknownFix, match=f"--try {asked}: there is no such {said}"):
        to_try(_examination(), FIXES, (asked,))


def test_other_settings_of_a_fix_come_after_all_fixes_of_their_own() -> None:
    setting = replace(_fix("setting", 0, "AAA001"), variant_of="cheap")

    assert [fix.name for fix in to_try(_examination(AAA001="found"), (setting, *FIXES))] == ["cheap", "dear", "setting"]


def test_a_short_budget_is_cut_at_the_end_but_never_what_was_asked_for() -> None:
    fixes = tuple(_fix(name, 1) for name in "abcd")

    def kept(asked: str, left_s: float) -> str:
        return "".join(fix.name for fix in affordable(fixes, asked, left_s))

    # a trial takes 20 s
    assert [kept("", left_s) for left_s in (0.0, 20.0, 59.0, 80.0)] == ["a", "a", "ab", "abcd"]
    assert kept("cd", 20.0) == "cd"
    assert kept("d", 40.0) == "ad"
