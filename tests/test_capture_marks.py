"""From the marks of a program to step boundaries. The only torch in here is a stand-in with what the marks look at."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from profiler_doctor.analyzer.capture.child.marks import Marks
from profiler_doctor.analyzer.capture.plan import Plan, SourceKind, StepSource
from profiler_doctor.analyzer.kinds import Root


class Listening:
    """A conductor that writes down the steps that begin."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_boundary(self, index: int, now_ns: int) -> None:
        self.steps.append(index)

    def on_root_call(self, root: Root) -> None:
        raise AssertionError("no module is called here")


class Module:
    _compiled_call_impl = None

    def compile(self) -> None: ...


def marked(marks: Iterable[tuple[SourceKind, str]], plan: Plan | None = None) -> tuple[list[int], Marks]:
    """The steps whose beginning was told, after these marks."""
    torch = SimpleNamespace(
        nn=SimpleNamespace(Module=Module), compiler=SimpleNamespace(is_compiling=lambda: False), Tensor=object
    )
    conductor = Listening()
    made = Marks(torch, plan or Plan(mode="observe", folder="/"), conductor)
    for kind, token in marks:
        made.seen(kind, token)
    return conductor.steps, made


def calls(tokens: str) -> list[tuple[SourceKind, str]]:
    return [("module", f"{token}|eval|2") for token in tokens]


def test_steps_are_told_once_three_calls_were_equal_and_two_more_were_foretold() -> None:
    steps, marks = marked(calls("0" * 8))
    assert steps == [4, 5, 6, 7]
    assert len(marks.early) == 5  # the four steps before, and the beginning of the first that was told


def test_a_run_of_decode_calls_is_not_believed_when_the_next_prefill_breaks_it() -> None:
    # 9 decode calls look like a loop for a moment; with the prefills it is one of 10 calls
    answers: list[tuple[SourceKind, str]] = [("module", f"0|eval|{size}") for size in [7, *[1] * 9] * 5]
    steps, marks = marked(answers)
    assert marks.source is not None
    assert len(marks.source.pattern) == 10
    assert marks.source.pattern[0] == "0|eval|7"
    assert steps == [4]


def test_two_optimizers_that_take_turns_make_one_step() -> None:
    steps, marks = marked([("optimizer", token) for token in "0001" * 8])
    assert marks.source is not None
    assert marks.source.pattern == ("0", "0", "0", "1")
    assert steps == [4, 5, 6, 7]


def test_an_optimizer_that_steps_takes_over_from_the_modules() -> None:
    micro: list[tuple[SourceKind, str]] = [*calls("0000"), ("optimizer", "0")]
    steps, marks = marked(micro * 8)
    assert marks.source is not None
    assert marks.source.kind == "optimizer"
    assert steps == [4, 5, 6, 7]


def test_a_mark_of_the_users_own_is_a_step_from_the_first_one_on() -> None:
    steps, _ = marked([*calls("0"), ("user", ""), *calls("00"), ("user", ""), *calls("00"), ("user", "")])
    assert steps == [0, 1, 2]


def test_a_source_known_from_an_earlier_run_is_followed_from_its_first_mark() -> None:
    known = StepSource(kind="module", pattern=("0|eval|2", "1|eval|2"), detail=2)
    steps, _ = marked(calls("010101"), Plan(mode="stacks", folder="/", source=known))
    assert steps == [0, 1, 2]


def test_a_program_too_short_to_be_believed_still_tells_its_steps_at_the_end() -> None:
    steps, marks = marked(calls("000"))
    source = marks.close()
    assert steps == []
    assert source is not None
    assert (source.pattern, source.detail) == (("0",), 0)
    assert marks.steps_seen(source) == 3


def test_nothing_that_repeats_gives_no_steps() -> None:
    steps, marks = marked(calls("0"))
    assert steps == []
    assert marks.close() is None
