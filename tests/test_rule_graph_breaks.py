"""COM003: a compiled model runs as several graphs instead of one, with Python between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.compile_facts import CompileFacts, GraphBreak
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.rules.graph_breaks import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

US = 1000


def broken_step(start: int = 0, number: int = 0) -> TraceBuilder:
    """A step of 1000 us: one call of 800 us that runs as two graphs.

    400 us of it are ops of the graphs, 100 us an op between them, 20 us reading a value; so 300 us are between.
    """
    built = TraceBuilder().step(number, start, 1000 * US)
    built.op("Torch-Compiled Region: 0/0", start + 100 * US, 800 * US)
    built.op("aten::addmm", start + 150 * US, 200 * US)
    built.op("aten::abs", start + 400 * US, 100 * US)
    built.op("aten::item", start + 520 * US, 20 * US)
    built.op("TorchDynamo Cache Lookup", start + 550 * US, 10 * US)
    built.op("Torch-Compiled Region: 1/0", start + 560 * US, 300 * US)
    return built.op("aten::tanh", start + 600 * US, 200 * US)


def test_the_time_between_two_graphs_less_what_one_needs_is_at_stake(tmp_path: Path) -> None:
    trace = broken_step().trace(tmp_path)

    [finding] = examine(trace, Found((RULE,))).outcomes[0].findings

    assert finding.evidence["graphs_per_call"] == 2
    assert finding.evidence["between_graphs_ns"] == 300 * US
    assert finding.stake.share == pytest.approx(0.150, abs=0.001)  # half of 300 us of 1000 us: one graph pays it too


def test_the_place_the_reason_and_the_hint_are_those_that_torch_told(tmp_path: Path) -> None:
    told = GraphBreak(file="/me/net.py", line=19, reason="Tensor.item()", hint="Set it.", code="GB0124", count=3)
    rare = GraphBreak(file="/me/net.py", line=40, reason="print", count=1)

    [seen] = ask(RULE, observed(broken_step().trace(tmp_path), compiles=CompileFacts(breaks=(rare, told))))

    assert (seen.where.file, seen.where.line) == ("/me/net.py", 19)
    assert "net.py:19 (GB0124), and at 1 other place: Tensor.item(). Torch's hint: Set it." in seen.message
    assert [one["hint"] for one in seen.evidence["breaks"]] == ["Set it.", ""]  # type: ignore[attr-defined]


def test_a_foreign_trace_with_stacks_names_the_line_at_which_the_function_goes_on(tmp_path: Path) -> None:
    built = broken_step().frame("net.py(19): torch_dynamo_resume_in_forward_at_19", 540 * US, 330 * US)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert (seen.where.file, seen.where.line) == ("net.py", 19)


GIVEN_UP = GraphBreak(file="/me/net.py", line=19, reason="print", hint="Do not.", code="GB0059", uncompiled="forward")


def eager_step() -> TraceBuilder:
    return TraceBuilder().step(0, 0, 1000 * US).op("aten::addmm", 100 * US, 300 * US)


def test_a_function_that_torch_gave_up_is_named_and_no_time_is_claimed(tmp_path: Path) -> None:
    trace = observed(eager_step().trace(tmp_path), compiles=CompileFacts(breaks=(GIVEN_UP,)))

    [seen] = ask(RULE, trace)

    assert seen.message.startswith("Nothing of `forward` is compiled")
    assert "net.py:19 (GB0059): print. Torch's hint: Do not." in seen.message
    assert (seen.where.file, seen.where.line) == ("/me/net.py", 19)
    assert seen.edit is None


@pytest.mark.parametrize(("frame", "found"), [("net.py(9): forward", 1), ("net.py(20): forward", 0), ("a.py(9): f", 0)])
def test_a_function_that_was_given_up_must_be_seen_running(tmp_path: Path, frame: str, found: int) -> None:
    built = eager_step().frame(frame, 50 * US, 500 * US)

    assert len(ask(RULE, observed(built.trace(tmp_path), compiles=CompileFacts(breaks=(GIVEN_UP,))))) == found


def test_where_compiled_code_runs_another_function_was_given_up(tmp_path: Path) -> None:
    built = eager_step().op("Torch-Compiled Region: 0/0", 500 * US, 300 * US)

    assert ask(RULE, observed(built.trace(tmp_path), compiles=CompileFacts(breaks=(GIVEN_UP,)))) == []


def test_a_break_after_which_torch_went_on_is_no_function_given_up(tmp_path: Path) -> None:
    told = GraphBreak(file="/me/net.py", line=19, reason="print")

    assert ask(RULE, observed(eager_step().trace(tmp_path), compiles=CompileFacts(breaks=(told,)))) == []


def test_two_models_compiled_by_themselves_are_no_break(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1000 * US)
    built.op("Torch-Compiled Region: 0/0", 100 * US, 300 * US).op("Torch-Compiled Region: 1/0", 450 * US, 300 * US)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_a_break_in_the_first_of_three_steps_alone_is_not_judged(tmp_path: Path) -> None:
    built = broken_step()
    for number in (1, 2):
        built.step(number, number * 1000 * US, 1000 * US)
        built.op("Torch-Compiled Region: 0/0", (number * 1000 + 100) * US, 300 * US)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_work_on_another_thread_does_not_fill_the_gap(tmp_path: Path) -> None:
    built = broken_step().event("cpu_op", "aten::mm", 100 * US, 800 * US, tid=2, args={"External id": 99})

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["between_graphs_ns"] == 300 * US
