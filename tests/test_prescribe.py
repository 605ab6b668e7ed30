"""From findings to the fixes that are tried."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.engine import Examination
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.model import Finding, RuleOutcome, Stake, Status
from profiler_doctor.analyzer.prescribe import UnknownFix, prescribe, to_try


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


def test_a_name_that_is_no_fix_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownFix, match=r"--try chaep: there is no such fix\. Choose from cheap, dear\."):
        to_try(_examination(), FIXES, ("chaep",))
