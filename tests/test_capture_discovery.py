"""Which of the marks that a program makes is the step, and following it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from profiler_doctor.analyzer.capture.child.discovery import PATIENCE_FOR_OPTIMIZER, Discovery, settled, shorten
from profiler_doctor.analyzer.capture.child.following import Follower
from profiler_doctor.analyzer.capture.plan import SourceKind, StepSource

NAMES = {"module 0": "Encoder", "module 1": "Decoder", "optimizer 0": "AdamW", "optimizer 1": "SGD"}


def told(marks: Iterable[tuple[SourceKind, str]], **how: object) -> tuple[StepSource | None, int]:
    """The source that these marks lead to, and after how many of them."""
    discovery = Discovery(names=NAMES, **how)  # type: ignore[arg-type]
    for count, (kind, token) in enumerate(marks, 1):
        source = discovery.add(kind, token)
        if source is not None:
            return source, count
    return discovery.at_the_end(), 0


def calls(tokens: str) -> list[tuple[SourceKind, str]]:
    return [("module", f"{token}|eval|2x3") for token in tokens]


def test_three_equal_calls_of_a_module_are_its_steps() -> None:
    source, after = told(calls("0000"))
    assert source is not None
    assert (source.kind, source.pattern, source.words, after) == ("module", ("0|eval|2x3",), "calls of Encoder", 3)


def test_an_encoder_and_a_decoder_make_one_step() -> None:
    source, after = told(calls("01010101"))
    assert source is not None
    assert source.words == "calls of Encoder, Decoder"
    assert after == 6


def test_a_mark_of_the_users_own_is_believed_at_once_and_over_modules() -> None:
    source, after = told([*calls("0"), ("user", ""), *calls("000")])
    assert source is not None
    assert (source.kind, source.pattern, after) == ("user", (), 2)


def test_micro_batches_before_an_optimizer_step_belong_to_one_step() -> None:
    micro: list[tuple[SourceKind, str]] = [*calls("0000"), ("optimizer", "0")]
    source, after = told(micro * 3, optimizer_exists=lambda: True)
    assert source is not None
    assert (source.kind, source.words, after) == ("optimizer", "optimizer.step of AdamW", 15)


def test_an_optimizer_that_never_steps_is_waited_for_only_so_long() -> None:
    source, after = told(calls("0" * 200), optimizer_exists=lambda: True)
    assert source is not None
    assert (source.kind, after) == ("module", PATIENCE_FOR_OPTIMIZER)


def test_shapes_that_never_repeat_are_left_out_of_the_token() -> None:
    source, after = told([("module", f"0|train|{size}x3") for size in range(40)])
    assert source is not None
    assert (source.detail, source.pattern, after) == (1, ("0|train",), 12)


def test_a_range_asked_for_by_name_is_the_only_thing_believed() -> None:
    marks: list[tuple[SourceKind, str]] = [*calls("00000"), ("user", ""), ("range", "")]
    source, after = told(marks, step_name="epoch")
    assert source is not None
    assert (source.words, after) == ("ranges called 'epoch'", 7)
    assert told(calls("00000"), step_name="epoch") == (None, 0)


def test_a_program_with_one_call_has_no_steps() -> None:
    assert told(calls("0")) == (None, 0)


def test_two_calls_are_two_steps_once_the_program_is_over() -> None:
    source, _ = told(calls("00"))
    assert source is not None
    assert source.words == "calls of Encoder"


def test_a_believed_single_module_is_followed_by_name_alone() -> None:
    source = settled(StepSource(kind="module", pattern=("0|eval|2x3",), detail=2))
    follower = Follower(source)
    assert [follower.starts_step(token) for token in ("0", "0|eval|2x3", "1|eval|2x3", "0|train|9x9")] == [
        True,
        True,
        False,
        True,
    ]


def test_a_cycle_begins_anew_at_its_first_token_after_a_misfit() -> None:
    follower = Follower(StepSource(kind="module", pattern=("p", "d", "d"), detail=0))
    # a longer answer, then a shorter one: each prefill still begins a step
    assert [follower.starts_step(token) for token in "pddddpdpdd"] == [c == "p" for c in "pddddpdpdd"]
    assert follower.misfits > 0


@pytest.mark.parametrize(("detail", "expected"), [(0, "0"), (1, "0|train"), (2, "0|train|2x3 4")])
def test_a_token_is_shortened_to_what_a_source_looks_at(detail: int, expected: str) -> None:
    assert shorten("0|train|2x3 4", detail) == expected
