"""MSR008: the model decides by the values in a tensor which way to go."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.rules.branch_on_values import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

US = 1000


def calling(*branches_us: int, module: bool = True) -> TraceBuilder:
    """A step with a call of Net's forward (100 us to 500 us) and truth values taken at these times."""
    built = TraceBuilder().step(0, 0, 1000 * US).frame("net.py(5): main", 0, 990 * US)
    if module:
        built.frame("nn.Module: Net_0", 100 * US, 400 * US).frame("net.py(12): forward", 110 * US, 380 * US)
    built.op("aten::mm", 120 * US, 50 * US)
    for at in branches_us:
        built.op("aten::is_nonzero", at * US, 5 * US)
    return built


def test_branches_in_a_forward_call_are_one_note_for_each_line(tmp_path: Path) -> None:
    [seen] = ask(RULE, calling(200, 300).trace(tmp_path))

    assert seen.evidence["events"] == 2
    assert (seen.where.file, seen.where.line) == ("net.py", 12)
    assert not seen.grave


def test_branches_outside_of_the_model_are_the_programs_own(tmp_path: Path) -> None:
    assert ask(RULE, calling(600).trace(tmp_path)) == []
    assert ask(RULE, calling(200, module=False).trace(tmp_path)) == []


def test_a_model_that_never_asks_for_a_truth_value_has_one_way(tmp_path: Path) -> None:
    assert ask(RULE, calling().trace(tmp_path)) == []
