"""The rule engine: what a rule's answer becomes, and what may not be believed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from profiler_doctor.analyzer import engine
from profiler_doctor.analyzer.engine import Selection, examine
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.model import RuleOutcome
from profiler_doctor.analyzer.plugins import Broken, Found
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder

US = 1000


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Three CPU steps of 1000 us, each with a `big` op of 400 us, an `other` of 100 us and a `small` one of 5 us."""
    builder = TraceBuilder()
    for number in range(3):
        start = number * 1000 * US
        builder.step(number, start, 1000 * US)
        builder.op("big", start + 10 * US, 400 * US)
        builder.op("other", start + 500 * US, 100 * US)
        builder.op("small", start + 700 * US, 5 * US)
    return builder.trace(tmp_path)


def _dropping(*names: str) -> Rule:
    def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
        rows = trace.rows_named(lambda name: name in names, ("cpu_op",))
        yield Sighting(message=f"{len(rows)} ops", edit=Edit(keep=dict.fromkeys(rows.tolist(), 0.0)))

    return _rule("TST001", find)


def _rule(code: str, find: object, **more: object) -> Rule:
    return Rule(code=code, name=code.lower(), doc="A rule of the test.", find=find, **more)  # type: ignore[arg-type]


def _outcome(trace: Trace, *rules: Rule, selection: Selection | None = None) -> RuleOutcome:
    return examine(trace, Found(rules), selection).outcomes[0]


def test_a_finding_carries_the_share_of_the_step_that_the_replay_gives(trace: Trace) -> None:
    outcome = _outcome(trace, _dropping("big"))

    assert outcome.status == "found"
    assert outcome.findings[0].stake.share == pytest.approx(0.4)
    assert outcome.findings[0].stake.ns_per_step == 400 * US


def test_a_finding_under_one_percent_is_kept_but_the_rule_is_clean(trace: Trace) -> None:
    outcome = _outcome(trace, _dropping("small"))

    assert outcome.status == "clean"
    assert "under 1%" in outcome.reason
    assert outcome.findings[0].stake.share == pytest.approx(0.005)


def test_two_rules_that_claim_the_same_time_are_counted_once(trace: Trace) -> None:
    both, again = _dropping("big"), _rule("TST002", _dropping("big", "other").find)

    joint = examine(trace, Found((both, again))).joint

    assert joint.share == pytest.approx(0.5)


def test_a_rule_that_needs_what_the_trace_lacks_says_so(trace: Trace) -> None:
    outcome = _outcome(trace, _rule("TST001", lambda *_: [], needs=(Has.KERNELS,)))

    assert (outcome.status, outcome.reason) == ("skipped", "the trace has no GPU kernels")


def test_a_rule_that_crashes_is_named_and_the_others_go_on(trace: Trace) -> None:
    def breaks(*_: object) -> list[Sighting]:
        raise ZeroDivisionError("no steps")

    crashed, fine = examine(trace, Found((_rule("TST001", breaks), _rule("TST002", lambda *_: [])))).outcomes

    assert (crashed.status, crashed.reason) == ("crashed", "ZeroDivisionError: no steps")
    assert fine.status == "clean"


def test_a_fault_in_telling_what_is_suppressed_costs_no_answer(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> list[object]:
        raise IndexError("no such file")

    monkeypatch.setattr(engine, "unused_comments", breaks)
    found = examine(trace, Found((_dropping("big"),)))

    assert found.outcomes[0].status == "found"
    assert [(note.code, note.message) for note in found.health] == [
        (engine.UNTOLD, "What is suppressed could not be told: IndexError: no such file")
    ]


def test_a_rule_file_that_cannot_be_loaded_is_named(trace: Trace) -> None:
    outcomes = examine(trace, Found((), (Broken("my.rules.bad", "SyntaxError: x"),))).outcomes

    assert (outcomes[0].status, outcomes[0].code) == ("crashed", "my.rules.bad")


def test_a_health_rule_that_fires_becomes_a_note_and_silences_what_it_vetoes(trace: Trace) -> None:
    cold = _rule("MSR901", lambda *_: [Sighting(message="The run was cold.", evidence={"events": 7})], vetoes=("TST",))

    examination = examine(trace, Found((cold, _dropping("big"))))

    assert [(note.code, note.events) for note in examination.health] == [("MSR901", 7)]
    assert [outcome.code for outcome in examination.outcomes] == ["TST001"]
    assert examination.outcomes[0].reason == "not to be believed here (MSR901): The run was cold."


@pytest.mark.parametrize("word", ["TST001", "TST", "tst001"])
def test_an_ignored_rule_is_skipped_by_code_family_or_name(trace: Trace, word: str) -> None:
    outcome = _outcome(trace, _dropping("big"), selection=Selection(ignore=(word,)))

    assert (outcome.status, outcome.reason) == ("skipped", "not selected")


def test_a_threshold_of_the_user_replaces_the_default(trace: Trace) -> None:
    seen: list[float] = []
    rule = _rule(
        "TST001",
        lambda _, limits: seen.append(limits["ops"]) or [],
        thresholds={"ops": Threshold(3, "ops", "a reason")},
    )

    examine(trace, Found((rule,)))
    examine(trace, Found((rule,)), Selection(limits={"TST001": {"ops": 9.0}}))

    assert seen == [3, 9.0]


@pytest.mark.parametrize("word", ["TST001", "TST", "tst001", "all"])
def test_thresholds_can_be_set_by_code_family_and_name_and_the_closest_counts(word: str) -> None:
    rule = _rule("TST001", lambda *_: [], thresholds={"ops": Threshold(3, "ops", "a reason")})

    assert Selection(limits={word: {"ops": 9.0, "other": 1.0}}).limits_of(rule) == {"ops": 9.0}
    both = {"all": {"ops": 1.0}, word: {"ops": 5.0}, "TST001": {"ops": 6.0}}
    assert Selection(limits=both).limits_of(rule) == {"ops": 6.0}


def test_a_finding_without_an_edit_leaves_the_judgement_to_a_trial(trace: Trace) -> None:
    outcome = _outcome(trace, _rule("TST001", lambda *_: [Sighting(message="a layout")]))

    assert outcome.status == "found"
    assert outcome.findings[0].stake.share is None
    assert outcome.findings[0].stake.basis == "only a trial can tell"
