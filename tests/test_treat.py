"""How the child puts fixes in the place of a root's call, and what it tells about that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child.treat import Treatment, in_order  # noqa: E402
from profiler_doctor.analyzer.kinds import COMPILER_RANK, Fix, Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes._standin import Standin  # noqa: E402

MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=False)
Treat = Callable[[Root], Callable[..., Any]]


def _fix(name: str, treat: Treat | None = None, **more: Any) -> Fix:
    @contextmanager
    def treated(root: Root) -> Iterator[Callable[..., Any]]:
        assert treat is not None
        yield treat(root)

    fields = {"doc": "", "cures": (), "snippet": "", "changes_numbers": "", "rank": 5, **more}
    return Fix(name=name, treat=treated if treat else None, **fields)


def _treatment(*fixes: Fix) -> tuple[Treatment, list[dict[str, Any]]]:
    said: list[dict[str, Any]] = []
    return Treatment(torch, fixes, MACHINE, lambda what, **more: said.append({"say": what, **more})), said


def _root(module: Any, *args: Any) -> Root:
    return Root(module, args or (torch.ones(1, 2),), {}, module._call_impl)


def test_copies_come_innermost_then_layouts_then_compilers_and_flags_outermost() -> None:
    flag, layout, compiler = _fix("flag", rank=0), _fix("layout", rank=3), _fix("compiler", rank=COMPILER_RANK)
    cheap_copy, dear_copy = _fix("cheap-copy", rank=4, freezes=True), _fix("dear-copy", rank=5, freezes=True)
    found = in_order((compiler, dear_copy, flag, cheap_copy, layout))
    assert [fix.name for fix in found] == ["cheap-copy", "dear-copy", "layout", "compiler", "flag"]


def test_what_a_fix_has_to_say_of_what_it_did_is_told_with_its_answers() -> None:
    treatment, said = _treatment(
        _fix("noted", lambda root: Standin(root.module, root.call, note="ran on CPU (2 nodes)"))
    )
    call = treatment.of(_root(torch.nn.Linear(2, 2)), frozenset({0}))
    for _ in range(4):
        call(torch.ones(1, 2))
    assert said[0]["notes"] == ["ran on CPU (2 nodes)"]


def test_a_fix_after_one_that_made_a_copy_is_given_the_copy() -> None:
    copied = torch.nn.Linear(2, 2)
    given: list[Any] = []

    def note(root: Root) -> Callable[..., Any]:
        given.extend([root.module, root.call])
        return root.call

    treatment, _ = _treatment(_fix("copy", lambda root: Standin(copied, copied), freezes=True), _fix("note", note))
    treatment.of(_root(torch.nn.Linear(2, 2)))
    assert given == [copied, copied]


def test_a_treated_root_is_called_counted_and_compared_and_the_cold_call_is_timed() -> None:
    model = torch.nn.Linear(2, 2)
    first = iter([0.2])

    def slow_at_first(root: Root) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            time.sleep(next(first, 0.0))
            return root.call(x)

        return call

    treatment, said = _treatment(_fix("slow", slow_at_first))
    call = treatment.of(_root(model), frozenset({0, 1, 3}))
    for _ in range(5):
        assert torch.equal(call(torch.ones(1, 2)), model(torch.ones(1, 2)))
    assert treatment.calls == 5
    assert treatment.watched_calls == 4
    assert [one["say"] for one in said] == ["treated"]
    assert said[0]["cold_s"] == pytest.approx(0.2, rel=0.5)
    assert said[0]["comparison"]["equal"] is True
    assert said[0]["comparison"]["inputs"] == 3


def test_the_untreated_side_is_copied_watched_and_compared_at_the_same_calls_as_a_treated_one() -> None:
    copies: list[str] = []

    class Model(torch.nn.Linear):
        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            copies.append(side)
            return torch.nn.Linear(2, 2)

    for name, fixes in (("untreated", ()), ("treated", (_fix("placebo", lambda root: root.call),))):
        side = name
        treatment, said = _treatment(*fixes)
        call = treatment.of(_root(Model(2, 2)), frozenset({0, 1}))
        watched = [bool(call(torch.ones(1, 2)).numel()) and treatment.watched_calls for _ in range(3)]
        assert (treatment.calls, treatment.took_hold, watched) == (3, True, [1, 2, 2])
        assert [one["say"] for one in said] == ["treated"]
    assert copies.count("untreated") == copies.count("treated") > 0


def test_a_module_made_anew_in_each_step_is_treated_again_and_neither_compared_again_nor_counted_as_new() -> None:
    treated: list[Any] = []
    treatment, said = _treatment(_fix("noted", lambda root: treated.append(root.module) or root.call))  # type: ignore[func-returns-value]
    first, *later = (Root(model, (torch.ones(1, 2),), {}, model._call_impl, serial="0") for model in _models(4))
    call = treatment.of(first, frozenset({0, 1}))
    for _ in range(3):
        call(torch.ones(1, 2))
    watched = treatment.watched_calls
    for root in later:
        treatment.of(root, frozenset({0, 1}))(torch.ones(1, 2))
    assert treated == [first.module, *(root.module for root in later)]
    assert len(treatment.roots) == 1
    assert treatment.calls == 6
    assert treatment.watched_calls == watched
    assert [one["say"] for one in said] == ["treated"]


def test_a_module_made_anew_that_a_fix_does_not_suit_is_told_of_once() -> None:
    def unsuitable(root: Root) -> Callable[..., Any]:
        raise Unsuitable("no")

    treatment, _ = _treatment(_fix("picky", unsuitable))
    for model in _models(3):
        treatment.of(Root(model, (torch.ones(1, 2),), {}, model._call_impl, serial="0"))
    assert not treatment.took_hold
    assert treatment.unsuitable == ["no"]


def _models(count: int) -> list[Any]:
    return [torch.nn.Linear(2, 2) for _ in range(count)]


def test_arguments_that_cannot_be_copied_say_that_the_fix_cannot_be_tried() -> None:
    treatment, said = _treatment(_fix("placebo", lambda root: root.call))
    treatment.of(_root(torch.nn.Linear(2, 2), (one for one in "generator")))
    assert (said, treatment.took_hold) == ([], False)
    assert treatment.unsuitable[0].startswith("the model's arguments cannot be copied: TypeError")


def test_a_model_compared_on_one_set_of_values_only_cannot_be_told() -> None:
    class Takes(torch.nn.Linear):
        def forward(self) -> Any:
            return super().forward(torch.ones(1, 2))

    treatment, said = _treatment(_fix("nothing", lambda root: root.call))
    call = treatment.of(Root(Takes(2, 2), (), {}, Takes(2, 2)._call_impl), frozenset({0, 1}))
    call()
    call()
    assert said[0]["comparison"]["equal"] in (None, False)


def test_other_answers_are_told_with_the_error() -> None:
    treatment, said = _treatment(_fix("wrong", lambda root: lambda x: root.call(x) * 2))
    call = treatment.of(_root(torch.nn.Linear(2, 2)), frozenset({0, 1}))
    call(torch.ones(1, 2))
    call(torch.ones(1, 2))
    assert said[0]["comparison"]["equal"] is False
    assert said[0]["comparison"]["error"] == pytest.approx(1.0)


def test_a_fix_that_does_not_suit_leaves_the_root_as_it_is() -> None:
    def refuse(root: Root) -> Callable[..., Any]:
        raise Unsuitable("too blue")

    treatment, _ = _treatment(_fix("picky", refuse))
    model = torch.nn.Linear(2, 2)
    call = treatment.of(_root(model))
    assert torch.equal(call(torch.ones(1, 2)), model(torch.ones(1, 2)))
    assert not treatment.took_hold
    assert treatment.unsuitable == ["too blue"]


def test_weights_that_change_under_a_frozen_copy_are_noticed() -> None:
    model, kept = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    frozen, _ = _treatment(_fix("copy", lambda root: root.call, freezes=True))
    alive, _ = _treatment(_fix("flag", lambda root: root.call))
    for treatment in (frozen, alive):
        treatment.of(_root(model))
        treatment.of(_root(kept))
        assert not treatment.stale()
    with torch.no_grad():
        model.weight.add_(1)
    assert frozen.stale()
    assert not alive.stale()


def test_new_weights_in_the_old_ones_place_are_noticed() -> None:
    model = torch.nn.Linear(2, 2)
    treatment, _ = _treatment(_fix("copy", lambda root: root.call, freezes=True))
    treatment.of(_root(model))
    model.weight = torch.nn.Parameter(torch.ones(2, 2))
    assert treatment.stale()


def test_an_exception_of_the_treated_call_is_told_and_raised() -> None:
    def broken(root: Root) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            raise RuntimeError("no kernel for this")

        return call

    treatment, said = _treatment(_fix("broken", broken))
    call = treatment.of(_root(torch.nn.Linear(2, 2)))
    with pytest.raises(RuntimeError, match="no kernel"):
        call(torch.ones(1, 2))
    assert said == [{"say": "failed", "error": "RuntimeError: no kernel for this"}]


def test_what_watches_the_roots_is_out_of_the_way_while_the_treated_call_runs_and_back_afterwards() -> None:
    model, seen = torch.nn.Linear(2, 2), []

    class Watcher:
        compiled = None

        def __call__(self, *args: Any) -> Any:
            raise AssertionError("the watcher was called")

    watcher = vars(model)["_compiled_call_impl"] = Watcher()

    def through_the_module(root: Root) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            seen.append(vars(model)["_compiled_call_impl"])
            return model(x)

        return call

    treatment, _ = _treatment(_fix("whole", through_the_module))
    call = treatment.of(_root(model))
    for _ in range(4):
        call(torch.ones(1, 2))
    assert seen == [None] * 4
    assert vars(model)["_compiled_call_impl"] is watcher


def test_copies_run_without_what_was_done_to_the_whole_process() -> None:
    model = torch.nn.Linear(2, 2)
    state = {"on": False}

    @contextmanager
    def set_up(machine: Machine) -> Iterator[None]:
        state["on"] = True
        yield
        state["on"] = False

    seen: list[bool] = []
    model.register_forward_hook(lambda *_: seen.append(state["on"]))
    treatment, said = _treatment(_fix("flag", set_up=set_up))
    treatment.set_up()
    call = treatment.of(_root(model), frozenset({0, 1}))
    call(torch.ones(1, 2))
    call(torch.ones(1, 2))
    assert said[0]["comparison"]["equal"] is True
    assert seen[:2] == [False, False]  # the two copies that tell the program's own noise
    assert seen[-1] is True
    treatment.close()
    assert state == {"on": False}
