"""The twelve traps: ways in which a treatment is fast because it gives other answers. Each ends rejected, and says why.

The wrong treatments are real recordings by `torch.jit.trace` where that falls into the trap, and written here where it
does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child.treat import Treatment  # noqa: E402
from profiler_doctor.analyzer.kinds import Fix, Machine, Root  # noqa: E402
from profiler_doctor.analyzer.model import Trial  # noqa: E402
from profiler_doctor.analyzer.trial_block import Block, Treated  # noqa: E402
from profiler_doctor.analyzer.trial_set import Pair  # noqa: E402
from profiler_doctor.analyzer.trial_verdict import Cure, Evidence, verdict  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
Wrong = Callable[[Root], Callable[..., Any]]


class Base(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))


class Branches(Base):
    def forward(self, x: Any) -> Any:
        return self.linear(x) if x.sum() > 0 else -self.linear(x)


class Loops(Base):
    def forward(self, x: Any) -> Any:
        total = x[0] * 0
        for row in range(x.shape[0]):
            total = total + self.linear(x[row])
        return total


class Counts(Base):
    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.linear(x) * self.calls


class CountsInABuffer(Base):
    def forward(self, x: Any) -> Any:
        self.seen += 1
        return self.linear(x) * self.seen


class WritesIntoItsInput(Base):
    def forward(self, x: Any) -> Any:
        x.mul_(2)
        return self.linear(x)


class DropsOut(Base):
    def forward(self, x: Any) -> Any:
        return torch.nn.functional.dropout(self.linear(x), 0.5, training=True)


class TakesAnItem(Base):
    def forward(self, x: Any) -> Any:
        return self.linear(x) * int(x.abs().sum().item())


class GoesThroughNumpy(Base):
    def forward(self, x: Any) -> Any:
        return self.linear(x) + torch.from_numpy(x.detach().numpy() * 2).sum()


class ReturnsADict(Base):
    def forward(self, x: Any) -> Any:
        return {"logits": self.linear(x), "hidden": [x, {"twice": 2 * x}]}


class Prints(Base):
    def forward(self, x: Any) -> Any:
        print(f"a batch of {len(x)}")  # noqa: T201  # the trap
        return self.linear(x)


def _recorded(root: Root) -> Callable[..., Any]:
    """What `torch.jit.trace` makes of the model."""
    return torch.jit.trace(root.module, root.args, check_trace=False)  # type: ignore[no-any-return]


def _without_the_write(root: Root) -> Callable[..., Any]:
    return lambda x: root.module.linear(x * 2)


def _with_its_own_dice(root: Root) -> Callable[..., Any]:
    dice = torch.Generator().manual_seed(3)
    return lambda x: root.module.linear(x) * 2 * torch.bernoulli(torch.full((3, 4), 0.5), generator=dice)


def _flat(root: Root) -> Callable[..., Any]:
    return lambda x: [root.module.linear(x), x, 2 * x]


def _of_the_weights_alone(root: Root) -> Callable[..., Any]:
    return lambda x: torch.nn.functional.linear(x, root.module.linear.weight, root.module.linear.bias)


TRAPS: list[tuple[type[Base], Wrong, str]] = [
    (Branches, _recorded, "output differs"),
    (Loops, _recorded, "output differs"),
    (Counts, _recorded, "attribute calls"),
    (CountsInABuffer, _recorded, "applying it changed buffer seen"),
    (WritesIntoItsInput, _without_the_write, "argument"),
    (DropsOut, _with_its_own_dice, "it draws random numbers differently"),
    (TakesAnItem, _recorded, "output differs"),
    (GoesThroughNumpy, _recorded, "output differs"),
    (ReturnsADict, _flat, "output"),
    (Prints, _recorded, "what it prints is '' where it was 'a batch of #'"),
]


@pytest.mark.parametrize(("kind", "wrong", "why"), TRAPS, ids=[kind.__name__ for kind, *_ in TRAPS])
def test_a_fast_treatment_that_falls_into_a_trap_is_rejected(kind: type[Base], wrong: Wrong, why: str) -> None:
    shapes = (3, 3, 3, 3, 3, 5) if kind is Loops else (3,) * 6
    trial = _tried(kind(), wrong, [torch.linspace(0.5, 2.0, rows * 4).reshape(rows, 4) for rows in shapes])
    assert (trial.verdict, trial.outputs_equal) == ("rejected", False)
    assert trial.reason.startswith("the answers differ: ")
    assert why in trial.reason


@pytest.mark.parametrize("kind", [kind for kind, *_ in TRAPS], ids=lambda kind: kind.__name__)
def test_a_treatment_that_changes_nothing_falls_into_none(kind: type[Base]) -> None:
    trial = _tried(kind(), lambda root: root.call, [torch.rand(rows, 4) for rows in (3, 3, 3, 3, 3, 5)])
    assert (trial.verdict, trial.outputs_equal, trial.reason) == ("verified", True, "")


def test_a_lost_forward_hook_is_rejected() -> None:
    class Plain(Base):
        def forward(self, x: Any) -> Any:
            return self.linear(x)

    module = Plain()
    module.linear.register_forward_hook(lambda *_: None)
    trial = _tried(module, _of_the_weights_alone, [torch.rand(3, 4)] * 6)
    assert trial.verdict == "rejected"
    assert "forward hooks no longer fire on linear" in trial.reason


def test_weights_that_were_frozen_are_rejected_once_the_script_changes_them_whatever_the_fix_says_of_itself() -> None:
    class Plain(Base):
        def forward(self, x: Any) -> Any:
            return self.linear(x)

    def frozen(root: Root) -> Callable[..., Any]:
        weight, bias = root.module.linear.weight.detach().clone(), root.module.linear.bias.detach().clone()
        return lambda x: torch.nn.functional.linear(x, weight, bias)

    for says_so, why in ((True, "would go stale"), (False, "output differs")):
        module = Plain()
        treatment, said = _treatment(frozen, freezes=says_so)
        call = treatment.of(_root(module, torch.rand(3, 4)), frozenset({0, 1, 4}))
        for _ in range(5):
            with torch.no_grad():
                call(torch.rand(3, 4))
                module.linear.weight.data.add_(0.1)
        treated = _told(said) if not says_so else (replace(_told(said)[0], equal=True),)
        trial = _verdict(treated, stale=treatment.stale())
        assert trial.verdict == "rejected"
        assert why in trial.reason


def test_gradients_that_stop_half_way_are_rejected_where_the_script_trains() -> None:
    class Two(Base):
        def forward(self, x: Any) -> Any:
            return self.linear(self.linear(x))

    def stops(root: Root) -> Callable[..., Any]:
        return lambda x: root.module.linear(root.module.linear(x).detach())

    batches = [torch.rand(3, 4) for _ in range(6)]
    trial = _tried(Two(), stops, batches, training=True)
    assert trial.verdict == "rejected"
    assert "the gradient of linear." in trial.reason
    assert _tried(Two(), stops, batches).verdict == "verified"  # in inference nobody misses them
    assert _tried(Two(), lambda root: root.call, batches, training=True).verdict == "verified"


def test_outputs_that_carry_no_gradients_any_more_are_rejected_where_the_script_trains() -> None:
    class Plain(Base):
        def forward(self, x: Any) -> Any:
            return self.linear(x)

    def detached(root: Root) -> Callable[..., Any]:
        return lambda x: root.call(x).detach()

    trial = _tried(Plain(), detached, [torch.rand(3, 4) for _ in range(6)], training=True)
    assert trial.verdict == "rejected"
    assert "the gradient of the outputs is another" in trial.reason


def test_gradients_that_are_rounding_alone_are_not_held_against_a_treatment() -> None:
    class Normed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.norm(self.conv(x)))

    def in_another_order(root: Root) -> Callable[..., Any]:
        return lambda x: root.call(x.contiguous(memory_format=torch.channels_last))

    # the bias of the convolution has no influence on what comes out of the norm: its gradient is 0 but for rounding
    batches = [torch.rand(4, 3, 12, 12) for _ in range(6)]
    assert _tried(Normed().train(), in_another_order, batches, training=True).verdict == "verified"


def _tried(module: Any, wrong: Wrong, batches: Sequence[Any], *, training: bool = False) -> Trial:
    """The verdict on a treatment that is half again as fast, given the comparisons of these calls."""
    treatment, said = _treatment(wrong, training=training)
    call = treatment.of(_root(module, batches[0]), frozenset({0, 1, 4}))
    for batch in batches:
        call(batch.clone())
    return _verdict(_told(said))


def _treatment(wrong: Wrong, *, freezes: bool = False, training: bool = False) -> tuple[Treatment, list[Any]]:
    @contextmanager
    def treat(root: Root) -> Iterator[Callable[..., Any]]:
        yield wrong(root)

    fix = Fix(name="wrong", doc="", cures=(), snippet="", changes_numbers="", rank=3, treat=treat, freezes=freezes)
    said: list[Any] = []
    machine = replace(MACHINE, training=training)
    return Treatment(torch, (fix,), machine, lambda what, **more: said.append({"say": what, **more})), said


def _root(module: Any, *args: Any) -> Root:
    return Root(module, args, {}, module._call_impl)


def _told(said: Sequence[Any]) -> tuple[Treated, ...]:
    last = [one for one in said if one["say"] == "treated"][-1]
    kept = {name: last["comparison"][name] for name in ("equal", "error", "tolerance", "reasons")}
    return (Treated(cold_s=last["cold_s"], **kept),)


def _verdict(treated: tuple[Treated, ...], *, stale: bool = False) -> Trial:
    fix = Fix(name="wrong", doc="", cures=(), snippet="", changes_numbers="", rank=3, treat=lambda root: root)  # type: ignore[arg-type, return-value]  # not called
    sets = []
    for shift in range(3):
        times = [100_000_000 + 500_000 * ((place + shift) % 5) for place in range(10)]
        pairs = [Pair(Block(1, ns * 3 // 2, ns * 3 // 2), Block(1, ns, ns, stale=stale), True) for ns in times]
        sets.append(tuple(pairs))
    return verdict(Cure((fix,)), Evidence(tuple(sets), treated), ("cpu", "wall"))
