"""Programs without a module or an optimizer: their steps are the calls of a function of the user's own."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child import users_function  # noqa: E402
from profiler_doctor.analyzer.capture.child.functions import Function, the_step  # noqa: E402
from profiler_doctor.analyzer.capture.child.replacing import keep_from_compilers  # noqa: E402
from profiler_doctor.analyzer.capture.child.tracebacks import OURS  # noqa: E402
from profiler_doctor.analyzer.capture.child.treat import Treatment  # noqa: E402
from profiler_doctor.analyzer.kinds import Fix, Machine, Root  # noqa: E402
from tests.watched import recorded, write  # noqa: E402

MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
WEIGHT = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)) + 0.5
SEEN: list[float] = []
COUNT = 0


def scaled(x: Any, by: float = 2.0, *, plus: float = 0.0) -> Any:
    return x @ WEIGHT * by + plus


def alone() -> Any:
    return torch.relu(WEIGHT)


def nothing() -> None:
    torch.relu(WEIGHT)


def counting() -> Any:
    global COUNT  # noqa: PLW0603  # what it is here for
    COUNT += 1
    return WEIGHT * COUNT


def noting() -> Any:
    SEEN.append(1.0)
    return WEIGHT * 2


def drifting() -> Any:
    return WEIGHT.add_(0.5)


# --- which function it is


def _known(name: str, depth: int, calls: int, total_ns: int, span_ns: int) -> Function:
    code = SimpleNamespace(co_name=name)
    return Function(code, depth, calls, total_ns, first_ns=1_000, last_ns=1_000 + span_ns)  # type: ignore[arg-type]


MAIN = _known("main", 0, 1, 1_000, 1_000)


def test_the_step_is_the_function_that_fills_the_loop_and_not_what_it_calls() -> None:
    found = the_step([MAIN, _known("step", 1, 20, 950, 980), _known("inner", 2, 10_000, 900, 970)])

    assert found is not None and found.code.co_name == "step"


def test_an_outer_function_of_few_calls_is_no_loop_and_the_one_it_repeats_is_the_step() -> None:
    found = the_step([MAIN, _known("epoch", 1, 2, 950, 980), _known("step", 2, 40, 900, 970)])

    assert found is not None and found.code.co_name == "step"


def test_a_small_function_called_outside_of_the_work_is_no_step() -> None:
    assert the_step([MAIN, _known("log", 1, 100, 20, 900)]) is None


# --- how its calls are seen


class Marked:
    """Stands in for the roots: remembers calls, and makes them."""

    asking = True

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.modules: list[Any] = []

    def adopt(self, module: Any, serial: str, name: str) -> None:
        self.modules.append(module)

    def is_compiling(self) -> bool:
        return False

    def inside(self) -> bool:
        return False

    def seen(self, module: Any, args: Any, kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return module(*args, **kwargs)


@pytest.fixture
def heard() -> Iterator[Callable[[Any], Marked]]:
    """A function from its second call on; functions are put back afterwards, for they are changed in place."""
    before: list[tuple[Any, Any]] = []

    def hear(function: Any) -> Marked:
        before.append((function, function.__code__))
        marked = Marked()
        users_function.hear(marked, torch, users_function.key_of(function.__code__))  # type: ignore[arg-type]
        return marked

    yield hear
    sys.setprofile(None)
    for function, code in before:
        function.__code__ = code


def test_a_function_is_heard_from_its_second_call_on_and_called_as_before(heard: Callable[[Any], Marked]) -> None:
    marked, x = heard(scaled), torch.ones(2, 4)
    first = scaled(x, plus=1.0)

    second, third = scaled(x, plus=1.0), scaled(x, 3.0)

    assert torch.equal(first, second) and torch.equal(third, x @ WEIGHT * 3.0)
    assert [(len(args), kwargs) for args, kwargs in marked.calls] == [(1, {"plus": 1.0}), (2, {})]
    assert sys.getprofile() is None


def test_names_for_it_that_existed_before_lead_to_us_too_and_its_closure_stays(heard: Callable[[Any], Marked]) -> None:
    held = [5]

    def closing(x: int) -> int:
        return x + held[0]

    other_name, marked = closing, heard(closing)
    closing(1)
    held[0] = 7

    assert (other_name(1), closing(2)) == (8, 9)
    assert len(marked.calls) == 2


def test_a_method_is_heard_with_its_object(heard: Callable[[Any], Marked]) -> None:
    class Engine:
        by = 3

        def run(self, x: int) -> int:
            return self.by * x

    engine, marked = Engine(), heard(Engine.run)
    engine.run(1)

    assert engine.run(2) == 6
    assert marked.calls == [((engine, 2), {})]


def test_a_function_that_the_script_compiles_is_heard_and_stays_compiled(heard: Callable[[Any], Marked]) -> None:
    def doubled(x: Any) -> Any:
        return x * 2

    keep_from_compilers(Marked.seen, inside=False)
    graphs: list[int] = []
    compiled = torch.compile(doubled, backend=lambda graph, _: graphs.append(1) or graph.forward)
    marked, x = heard(doubled), torch.ones(3)

    results = [compiled(x) for _ in range(4)]

    assert len(marked.calls) == 3
    assert graphs == [1]
    assert all(torch.equal(result, x * 2) for result in results)


def test_an_exception_passes_and_its_own_line_is_in_the_traceback(heard: Callable[[Any], Marked]) -> None:
    def failing(x: int) -> float:
        return 1 / x

    heard(failing)
    failing(1)

    with pytest.raises(ZeroDivisionError) as raised:
        failing(0)

    named = [
        (frame.filename.startswith(OURS), frame.name) for frame in traceback.extract_tb(raised.value.__traceback__)
    ]
    assert named[-1] == (False, "failing")


def test_the_profile_function_that_the_script_had_set_is_set_again(heard: Callable[[Any], Marked]) -> None:
    events: list[str] = []

    def theirs(frame: Any, event: str, arg: Any) -> None:
        events.append(event)

    sys.setprofile(theirs)
    heard(alone)
    alone()

    assert sys.getprofile() is theirs and "call" in events


# --- whether it can be called once more


def _changes(heard: Callable[[Any], Marked], function: Callable[[], Any]) -> str:
    marked = heard(function)
    for _ in range(4):
        function()
    return users_function.why_not_repeatable(marked.modules[0])


@pytest.mark.parametrize(
    ("function", "said"),
    [(alone, ""), (counting, "it sets COUNT"), (noting, "it changes SEEN"), (drifting, "it changes WEIGHT")],
)  # fmt: skip
def test_what_a_function_changes_outside_is_seen(
    heard: Callable[[Any], Marked], function: Callable[[], Any], said: str
) -> None:
    kept = WEIGHT.clone()
    try:
        found = _changes(heard, function)
    finally:
        WEIGHT.copy_(kept)
        SEEN.clear()

    assert (said in found) if said else not found


# --- whether the answers stay the same


def _fix(treat: Any) -> Fix:
    return Fix(name="tried", doc="Tried.", cures=(), snippet="", changes_numbers="", rank=1, treat=treat)


def _compared(function: Any, treat: Any, args: tuple[Any, ...] = ()) -> dict[str, Any]:
    module, said = users_function.users_function(torch, function), []
    treatment = Treatment(torch, (_fix(treat),), MACHINE, lambda what, **more: said.append(more))
    call = treatment.of(Root(module, args, {}, module._call_impl), frozenset({0, 1}))
    for _ in range(4):
        call(*args)
    treatment.close()
    return said[-1]["comparison"]  # type: ignore[no-any-return]


class _Same:
    def __init__(self, root: Root) -> None:
        self.call = root.call

    def __enter__(self) -> Callable[..., Any]:
        return self.call

    def __exit__(self, *_: object) -> None: ...


class _Remembered(_Same):
    """Gives the first answer again and again, as an engine does that took the function's inputs for constants."""

    def __enter__(self) -> Callable[..., Any]:
        return self.call().clone


def test_a_function_without_arguments_is_compared_on_other_values_of_what_it_reads() -> None:
    before = WEIGHT.clone()

    assert _compared(alone, _Same)["equal"] is True
    assert _compared(alone, _Remembered)["equal"] is False
    assert torch.equal(WEIGHT, before)


def test_a_function_that_returns_nothing_is_never_found_equal() -> None:
    found = _compared(nothing, _Same)

    assert found["equal"] is None
    assert found["reasons"] == ("the function returns no tensor to compare",)


def test_a_function_that_changes_things_is_left_as_it_is() -> None:
    module = users_function.users_function(torch, counting)
    module.changes = "it sets COUNT"
    treatment = Treatment(torch, (_fix(_Same),), MACHINE, lambda *_, **__: None)

    treatment.of(Root(module, (), {}, module._call_impl), frozenset({0}))

    assert treatment.unsuitable == [
        "the function cannot be called once more to compare its answers: it sets COUNT"
    ]  # fmt: skip


# --- end to end

SCRIPT = """
    import torch

    weight = torch.rand(64, 64)

    def once(x):
        return torch.relu(x @ weight)

    def step():
        y = weight
        for _ in range(20):
            y = once(y)
        return y

    def main():
        for _ in range(30):
            step()

    main()
"""


def test_a_script_of_functions_has_steps_and_keeps_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    captured = recorded(write(tmp_path, SCRIPT, "plain.py"), stacks=True)

    assert captured.facts.step_source == "calls of step()"
    assert captured.recorded_steps == 5 and captured.known_steps == 29  # the first call tells which function it is
    assert captured.source is not None and captured.source.function.endswith(":9:step")
    assert [root.name for root in captured.facts.roots] == ["step()"]
    assert captured.stacks_file is not None
