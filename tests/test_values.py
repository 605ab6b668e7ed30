"""Which ops work out what is there already: told by the tensors' identities, in real recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.values import made_again, overwritten, same_in_every_step
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.cast_churn import RULE as CASTS
from profiler_doctor.rules.recomputed_constants import RULE as CONSTANTS
from tests.asking import ask
from tests.identified import identified, without_identity

torch = pytest.importorskip("torch")

STEPS = 4
WEIGHT = torch.randn(64, 64)
OTHER = torch.randn(64, 64)


def again(trace: Trace) -> Counter[str]:
    """Names of the ops of all four steps that give what an earlier one of the step gave."""
    return Counter(trace.events.names_at(made_again(trace)["row"]))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda: [WEIGHT.half() for _ in range(3)], {"aten::to": 2 * STEPS}),
        (
            lambda: [torch.arange(9).float().cos() for _ in range(2)],
            dict.fromkeys(["aten::arange", "aten::to", "aten::cos"], STEPS),
        ),
        (lambda: [torch.mm(WEIGHT, OTHER) for _ in range(2)], {"aten::mm": STEPS}),
        (lambda: [WEIGHT[row].half() for row in range(3)], {}),
        (lambda: [WEIGHT.half(), OTHER.half()], {}),
        (lambda: [WEIGHT.half(), WEIGHT.bfloat16()], {}),
        (lambda: [torch.mm(WEIGHT, OTHER), torch.mm(OTHER, WEIGHT)], {}),
        (lambda: [torch.rand(64) for _ in range(3)], {}),
        (lambda: [torch.nn.functional.dropout(WEIGHT) for _ in range(3)], {}),
        (lambda: [torch.tensor([1.0, 2.0]).half(), torch.tensor([3.0, 4.0]).half()], {}),
        (lambda: [torch.ones(64).add_(number) for number in range(3)], {}),
    ],
)
def test_the_same_op_on_the_same_numbers_is_told(
    tmp_path: Path, step: Callable[[], object], expected: dict[str, int]
) -> None:
    assert again(identified(tmp_path, step)) == expected


def test_what_was_written_to_in_between_is_not_the_same(tmp_path: Path) -> None:
    state, given = torch.randn(64), torch.randn(64)

    def step() -> None:
        state.half()
        state.add_(1.0)
        state.half()
        torch.mul(given, 2.0, out=state)
        state.half()

    trace = identified(tmp_path, step)

    assert again(trace) == {}
    assert same_in_every_step(trace) == frozenset()


def test_a_cast_of_a_weight_in_each_step_is_told_from_one_of_new_data(tmp_path: Path) -> None:
    trace = identified(tmp_path, lambda: [WEIGHT.half(), torch.rand(64).half()])

    rows = sorted(same_in_every_step(trace))

    assert len(rows) == STEPS
    assert {trace.events.text("Input Dims").text_at(row) for row in rows} == {"[[64, 64], [], [], [], []]"}


def test_constants_that_are_written_to_afterwards_are_left_out(tmp_path: Path) -> None:
    def step() -> None:
        for _ in range(4):
            torch.ones(64)
            torch.full((64,), 2.0).add_(torch.ones(64))

    trace = identified(tmp_path, step)

    assert Counter(trace.events.names_at(sorted(overwritten(trace)))) == {"aten::full": 4 * STEPS}
    [seen] = ask(CONSTANTS, trace)
    assert seen.evidence["names"] == ["ones"]
    [blind] = ask(CONSTANTS, without_identity(trace))
    assert blind.evidence["names"] == ["full", "ones"]


def test_what_is_worked_out_of_constants_alone_is_one_too(tmp_path: Path) -> None:
    places = torch.randn(32)

    def step() -> None:
        for _ in range(4):
            torch.outer(torch.arange(64).float(), torch.ones(32)).cos()
            torch.outer(places, places)

    [seen] = ask(CONSTANTS, identified(tmp_path, step))

    assert seen.evidence["names"] == ["arange", "cos", "ones", "outer", "to"]
    # three of each in each of the three judged steps
    assert seen.evidence["made_again"] == 3 * 3 * 5


def test_a_model_that_is_run_again_on_one_input_is_no_constant(tmp_path: Path) -> None:
    def step() -> None:
        for _ in range(4):
            (WEIGHT + torch.nn.functional.embedding(torch.arange(64), OTHER)).mm(OTHER)

    [seen] = ask(CONSTANTS, identified(tmp_path, step))

    assert seen.evidence["names"] == ["arange"]


def test_casts_of_what_has_not_changed_are_counted(tmp_path: Path) -> None:
    trace = identified(tmp_path, lambda: [WEIGHT.half(), WEIGHT.half(), torch.rand(64).half()])

    [seen] = ask(CASTS, trace, share=0.0)

    # both of the weight in each of three judged steps: the second in the step, the first since the step before
    assert (seen.evidence["casts"], seen.evidence["casts_of_the_same"]) == (9, 6)
    assert "6 of 9 cast a tensor that has not changed since it was cast before" in seen.message
    [blind] = ask(CASTS, without_identity(trace), share=0.0)
    assert blind.evidence["casts_of_the_same"] == 0
