"""The accuracy page counts right: what was expected, what came out, and how far predictions were off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy_page import page, predictions
from benchmarks.cases import Case, cases


def _document(verdict: str, *, share: float | None = 0.5, speedup: float | None = 2.0, fix: str = "cure") -> Any:
    trial = {"fix": fix, "verdict": verdict, "speedup": speedup, "low": 1.5, "high": 2.5, "reason": ""}
    finding = {"stake": {"share": share}, "cures": [fix]}
    return {
        "environment": {},
        "verdict": {"exit_code": 0, "sentence": ""},
        "outcomes": [{"code": "ABC001", "status": "found", "findings": [finding]}],
        "trials": [trial],
    }


def _case(number: str, expected: str) -> Case:
    return Case(Path(f"{number}_name.py"), expected)


def test_what_a_case_expects_stands_in_its_call(tmp_path: Path) -> None:
    (tmp_path / "01_a.py").write_text("main(slow, fixed)\n")
    (tmp_path / "02_b.py").write_text('main(slow, expect="reject", note="x")\n')
    (tmp_path / "_case.py").write_text("")
    assert [(case.number, case.expected) for case in cases(tmp_path)] == [("01", "fix"), ("02", "reject")]


@pytest.mark.parametrize(
    ("case", "document", "outcome"),
    [
        (_case("28", "fix"), _document("verified"), "as expected"),
        (_case("28", "fix"), _document("rejected"), "no fix verified"),
        (_case("28", "fix"), _document("not_tried"), "as expected"),
        (_case("28", "fix"), {**_document("rejected"), "outcomes": []}, "missed"),
        (_case("06", "reject"), _document("verified", fix="compile-dynamic"), "bad advice verified: compile-dynamic"),
        (_case("06", "reject"), _document("verified", fix="inference-mode"), "as expected"),
        (_case("33", "none"), _document("verified"), "not silent"),
        (_case("33", "none"), _document("rejected"), "as expected"),
        (_case("33", "none"), {"verdict": {"exit_code": 5}}, "no document"),
    ],
)
def test_an_outcome_is_held_against_what_the_case_expects(case: Case, document: Any, outcome: str) -> None:
    assert case.outcome(document) == outcome


def test_half_precision_is_bad_advice_only_where_the_cpu_does_not_compute_in_it() -> None:
    case, document = _case("15", "reject"), _document("verified", fix="autocast-bf16")
    able = {**document, "environment": {"cpu": {"flags": ["avx2", "amx_bf16"]}}}
    assert case.outcome(document).startswith("bad advice verified")
    assert case.outcome(able) == "as expected"


def test_a_prediction_is_held_against_the_share_that_was_saved() -> None:
    near, far = _document("verified", share=0.55), _document("verified", share=0.2, fix="other")
    without = _document("verified", share=None)
    measured = {_case("01", "fix"): [near], _case("02", "fix"): [far], _case("03", "fix"): [without]}
    found = predictions(measured)
    # twice as fast saves half of the step: 0.55 is a tenth too much, 0.2 is three fifths too little
    assert [(one.case, one.saved) for one in found] == [("01_name", 0.5), ("02_name", 0.5)]
    assert [one.miss for one in found] == pytest.approx([0.1, -0.6])
    text = page(measured)
    assert "within ±25% for 1 of 2 (50%); wanted 60%. Of all rows: 1 of 2 (50%)." in text
    assert "The furthest off:\n\n- 02_name, other (-60%): not looked into." in text
    assert "only a trial can tell what they bring: 03_name, cure." in text
    assert "01_name | fix | 1 of 1 | ABC001 | 55.0% | cure | verified | 2.00 (1.50–2.50)" in text


def test_a_stake_is_held_against_the_cure_that_brought_most_and_part_of_one_against_none() -> None:
    document = _document("verified", share=0.5)
    [outcome], [trial] = document["outcomes"], document["trials"]
    outcome["findings"][0]["cures"] = ["cure", "lesser"]
    document["trials"] = [trial, {**trial, "fix": "lesser", "speedup": 1.25}, {**trial, "fix": "both"}]
    unknown = {"stake": {"share": None}, "cures": ["both"]}
    known = {"stake": {"share": 0.9}, "cures": ["both"]}
    document["outcomes"] += [{"code": "ABC002", "status": "found", "findings": [unknown, known]}]

    measured = {_case("01", "fix"): [document]}

    assert [(one.fix, one.stake) for one in predictions(measured)] == [("cure", 0.5), ("lesser", 0.5)]
    assert "within ±25% for 1 of 1 (100%); wanted 60%. Of all rows: 1 of 2 (50%)." in page(measured)
    assert "only a trial can tell what they bring: 01_name, both." in page(measured)
