"""What a check says, from counters written down by hand: no program is run here."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.counters import Counters, Value, agreed
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.gate import Check, Checked, TimeChange, budgets, compared, not_comparable, op_changes

USUAL: dict[str, Value] = {"ops": 100, "allocated_bytes": 1000, "op_sequence": "aa", "op_signature": "bb"}


def made(ops: dict[str, int] | None = None, varying: tuple[str, ...] = (), **exact: Value) -> Counters:
    return Counters(exact={**USUAL, **exact}, ops=ops or {}, varying=frozenset(varying))


def with_ops(count: int, **exact: Value) -> Counters:
    return Counters(exact={**USUAL, "ops": count, **exact})


def statuses(before: Counters, after: Counters, **tolerance: float) -> dict[str, str]:
    return {row.name: row.status for row in compared(before, after, tolerance)}


def checked(**fields: object) -> Checked:
    return Checked(name="it", command=("it.py",), against="HEAD", **fields)  # type: ignore[arg-type]


def test_equal_counters_pass() -> None:
    rows = compared(made(), made(), {})

    assert {row.status for row in rows} == {"same"}
    assert checked(rows=rows).exit_code == ExitCode.FINE


@pytest.mark.parametrize("name", ["ops", "allocated_bytes", "item_calls", "graph_breaks"])
def test_one_more_of_anything_is_worse(name: str) -> None:
    before, after = (Counters(exact={**USUAL, name: count}) for count in (7, 8))

    rows = compared(before, after, {})

    assert [row.name for row in rows if row.status == "worse"] == [name]
    assert checked(rows=rows).exit_code == ExitCode.FINDINGS


def test_one_less_is_better_and_explains_a_changed_sequence() -> None:
    found = statuses(made(), with_ops(99, op_sequence="cc", op_signature="dd"))

    assert found == {"ops": "better", "allocated_bytes": "same", "op_sequence": "changed", "op_signature": "changed"}


def test_a_signature_that_changes_alone_is_worse() -> None:
    found = statuses(made(), made(op_signature="cc"))

    assert (found["op_sequence"], found["op_signature"]) == ("same", "worse")


def test_a_tolerance_lets_a_counter_grow_so_far_and_no_further() -> None:
    assert statuses(made(), made(allocated_bytes=1010), allocated_bytes=0.01)["allocated_bytes"] == "allowed"
    assert statuses(made(), made(allocated_bytes=1011), allocated_bytes=0.01)["allocated_bytes"] == "worse"


def test_what_varies_on_either_side_decides_nothing() -> None:
    varying = Counters(exact={"ops": 100}, information={"item_calls": (1, 2)})
    steady = Counters(exact={"ops": 100, "item_calls": 5})

    assert statuses(steady, varying)["item_calls"] == "information"
    assert statuses(varying, steady)["item_calls"] == "information"
    assert checked(rows=compared(varying, steady, {})).exit_code == ExitCode.FINE


def test_a_new_finding_is_worse_and_a_new_kind_of_counter_is_not() -> None:
    found = statuses(made(), Counters(exact={**USUAL, "findings.SYN001": 1, "invented": 5}))

    assert (found["findings.SYN001"], found["invented"]) == ("worse", "unknown")


def test_where_the_number_of_ops_varies_each_op_is_judged_by_itself() -> None:
    before = Counters(exact={}, information={"ops": (9, 10)}, ops={"aten::add": 3}, varying=frozenset({"aten::mm"}))
    after = Counters(exact={}, information={"ops": (10, 11)}, ops={"aten::add": 4, "aten::mm": 5})

    rows = {row.name: row.status for row in compared(before, after, {})}

    assert rows == {"ops": "information", "ops.aten::add": "worse"}


def test_ops_that_changed_are_named_the_largest_change_first() -> None:
    found = op_changes(made(ops={"a": 1, "b": 5, "c": 2}), made(ops={"a": 2, "b": 5, "d": 4}, varying=("e",)))

    assert [(each.name, each.before, each.after) for each in found] == [("d", 0, 4), ("c", 2, 0), ("a", 1, 2)]


def test_processes_keep_only_what_they_agree_on() -> None:
    one = Counters(exact={"ops": 5, "casts": 1}, information={"syncs": (1, 2)}, ops={"a": 1, "b": 2}, windows=5)
    two = Counters(exact={"ops": 5, "casts": 2, "syncs": 3}, ops={"a": 1, "b": 3}, windows=5)

    found = agreed(one, two)

    assert found.exact == {"ops": 5}
    assert set(found.information) == {"syncs", "casts"}
    assert (found.ops, found.varying, found.windows) == ({"a": 1}, frozenset({"b"}), 10)


def test_budgets_hold_for_the_largest_value_seen_and_for_findings_that_stand() -> None:
    counters = Counters(exact={"ops": 100, "findings.SYN001": 1}, information={"syncs": (2, 5)})

    found = budgets(counters, {"ops": 100, "syncs": 4}, ("SYN001", "CPY001"))

    assert [(each.name, each.kept) for each in found] == [
        ("max_ops", True),
        ("max_syncs", False),
        ("forbid SYN001", False),
        ("forbid CPY001", True),
    ]
    assert checked(budgets=found).exit_code == ExitCode.FINDINGS


def test_under_other_circumstances_a_difference_says_nothing_and_equality_still_does() -> None:
    rows = not_comparable(compared(made(), made(allocated_bytes=2000), {}), "torch was 2.5 and is 2.6")

    assert {row.name: row.status for row in rows}["allocated_bytes"] == "not comparable"
    assert {row.name: row.status for row in rows}["ops"] == "same"
    assert checked(rows=rows).exit_code == ExitCode.INCONCLUSIVE
    assert checked(rows=rows).doubts == (
        "1 counter differs (allocated_bytes first), but torch was 2.5 and is 2.6; "
        "--base REV compares both here and now",
    )


def test_strict_lets_nothing_undecided_pass_and_worse_stays_worse() -> None:
    slow = TimeChange(verdict="inconclusive", reason="too noisy")
    undecided, worse = checked(time=slow), checked(rows=compared(made(), with_ops(101), {}))

    assert Check(workloads=(undecided,)).exit_code == ExitCode.INCONCLUSIVE
    assert Check(workloads=(undecided,), strict=True).exit_code == ExitCode.FINDINGS
    assert Check(workloads=(undecided, worse)).exit_code == ExitCode.FINDINGS
    assert "got worse: ops 100 → 101" in Check(workloads=(worse,)).sentence
