"""Two documents of runs, judged by their counters as a check judges a program: same words, same exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.comparable import compare
from profiler_doctor.analyzer.comparison import Comparison
from profiler_doctor.analyzer.counts import Counts
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.repeated import counts
from profiler_doctor.analyzer.sides import side_of_document
from profiler_doctor.reports import comparison as shown
from profiler_doctor.verbs.compare import CompareOptions
from profiler_doctor.verbs.compare import compare as verb
from tests import documents
from tests.trace_builder import TraceBuilder

USUAL: dict[str, int | str] = {"ops": 225, "item_calls": 0, "op_sequence": "aa"}


def counted(varying: tuple[str, ...] = (), torch: str = "2.13.0", **exact: int | str) -> Diagnosis:
    whole = documents.resnet()
    counters = Counts(exact={**USUAL, **exact}, varying=varying, steps=4)
    return replace(whole, counters=counters, environment={**whole.environment, "torch": torch})


def compared(before: Diagnosis, after: Diagnosis) -> Comparison:
    return compare(side_of_document(before, "A"), side_of_document(after, "B"))


def test_equal_counters_pass() -> None:
    comparison = compared(counted(), counted())

    assert comparison.checked.exit_code == ExitCode.FINE
    assert "Counters of a step: pass (3 counters the same)." in shown.text(comparison, 5)
    assert shown.counters(comparison) == []


def test_one_more_read_is_worse_in_the_words_of_a_check() -> None:
    comparison = compared(counted(), counted(item_calls=1, op_sequence="bb"))

    assert comparison.checked.exit_code == ExitCode.FINDINGS
    assert comparison.checked.regressions == ("item_calls 0 → 1",)
    assert (".item() calls", "0", "1", "+1", "worse") in shown.counters(comparison)
    assert "| .item() calls | 0 | 1 | +1 | worse |" in shown.markdown(comparison, 5)


def test_another_torch_makes_a_difference_say_nothing() -> None:
    comparison = compared(counted(torch="2.12.0"), counted(ops=230))

    assert comparison.checked.exit_code == ExitCode.INCONCLUSIVE
    assert "torch was 2.12.0 and is 2.13.0" in shown.text(comparison, 5)


def test_what_varies_on_a_side_decides_nothing() -> None:
    exact = {name: value for name, value in USUAL.items() if name != "ops"}
    varying = replace(counted(), counters=Counts(exact=exact, varying=("ops",), steps=4))

    assert compared(varying, counted(ops=999)).checked.exit_code == ExitCode.FINE


def test_documents_of_before_there_were_counters_are_compared_without() -> None:
    comparison = compared(replace(counted(), counters=None), counted())

    assert (comparison.counters, comparison.checked.exit_code) == ((), ExitCode.FINE)
    assert "Counters" not in shown.text(comparison, 5)


@pytest.mark.parametrize(("reads", "code"), [(0, ExitCode.FINE), (1, ExitCode.FINDINGS)])
def test_the_verb_reads_the_files_and_ends_as_a_check_does(tmp_path: Path, reads: int, code: ExitCode) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    document.save(counted(), before)
    document.save(counted(item_calls=reads), after)
    options = CompareOptions(
        before=str(before), after=str(after), format_="json", out=tmp_path / "changes.json", top=None
    )

    ended = verb(options)

    rows = json.loads((tmp_path / "changes.json").read_text("utf-8"))["counters"]
    assert ended == code
    assert {row["name"]: row["after"] for row in rows}["item_calls"] == reads


def steps_of(folder: Path, more_ops_in: int | None = None) -> TraceBuilder:
    """Four steps of two ops each; in one of them three."""
    builder = TraceBuilder()
    for number in range(4):
        at = 1000 * number
        builder.step(number, at, 1000)
        for place in range(3 if number == more_ops_in else 2):
            builder.op("aten::relu", at + 100 * (place + 1), 50, **{"Input Dims": [[4, 4]], "Input type": ["float"]})
    return builder


@pytest.mark.parametrize(("more_ops_in", "ops", "varying"), [(None, 2, False), (0, 2, False), (2, None, True)])
def test_every_recorded_step_but_the_first_must_repeat_a_counter(
    tmp_path: Path, more_ops_in: int | None, ops: int | None, varying: bool
) -> None:
    trace = read(steps_of(tmp_path, more_ops_in).write(tmp_path, "a.json"))

    found = counts(trace.with_capture(Facts(), None))

    assert found is not None
    assert (found.exact.get("ops"), "ops" in found.varying, found.steps) == (ops, varying, 3)
    assert "peak_bytes" not in {*found.exact, *found.varying}  # no memory was recorded: 0 would be a lie
    assert counts(trace) is None  # somebody else's trace
