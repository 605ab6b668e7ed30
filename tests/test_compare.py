"""A treated call that gives other answers, or leaves other traces, is told from one that does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child.compare import Comparison, Shadow  # noqa: E402
from profiler_doctor.analyzer.capture.child.keeping import state_of  # noqa: E402
from profiler_doctor.analyzer.capture.child.leaves import duplicate, flat, perturb  # noqa: E402


class Branch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.linear(x) if x.sum() > 0 else -2 * self.linear(x)


class Counter(Branch):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.linear(x) * self.calls


class BufferCounter(Branch):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.linear(x)


class Mutates(Branch):
    def forward(self, x: Any) -> Any:
        x.mul_(2)
        return self.linear(x)


class Drops(Branch):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return {"logits": self.dropout(self.linear(x)), "hidden": [x]}


def _x() -> Any:
    return torch.linspace(0.5, 2.0, 12).reshape(3, 4)


def _held(module: Any, treated: Callable[..., Any], *args: Any) -> tuple[Any, Comparison]:
    args = args or (_x(),)
    return Shadow(torch, module).compared(treated, args, {}, thorough=True)


@pytest.mark.parametrize("kind", [Branch, Counter, BufferCounter, Mutates, Drops])
def test_the_module_itself_is_equal_to_its_shadow_and_runs_once(kind: type[Any]) -> None:
    torch.manual_seed(0)
    module, twin = kind(), kind()
    twin.load_state_dict(module.state_dict())
    torch.manual_seed(7)
    output, found = _held(module, module)
    torch.manual_seed(7)
    expected = twin(_x())
    assert found.equal is True
    assert found.error == 0.0
    assert found.inputs == 3  # the program's own, negated, turned round
    assert _all_equal(flat(torch, output), flat(torch, expected))
    assert getattr(module, "calls", 1) == 1


def test_a_baked_branch_is_caught_on_other_values() -> None:
    module = Branch()
    output, found = _held(module, module.linear)
    assert torch.equal(output, module.linear(_x()))  # on the program's own values it is right
    assert found.equal is False
    assert found.error > 0.5


def test_a_baked_counter_is_caught_at_once_because_the_attribute_stands_still() -> None:
    module = Counter()
    _, found = _held(module, module.linear)
    assert found.equal is False
    assert any("attribute calls" in reason for reason in found.reasons)


def test_a_counter_that_moves_but_whose_use_was_baked_is_caught_at_a_later_call() -> None:
    module = Counter()

    def baked(x: Any) -> Any:
        module.calls += 1
        return module.linear(x)

    shadow = Shadow(torch, module)
    _, first = shadow.compared(baked, (_x(),), {}, thorough=True)
    _, later = shadow.compared(baked, (_x(),), {}, thorough=False)
    assert first.equal is True
    assert later.equal is False


def test_a_dropped_buffer_update_is_caught() -> None:
    module = BufferCounter()
    _, found = _held(module, module.linear)
    assert found.equal is False
    assert any("buffer calls" in reason for reason in found.reasons)


def test_a_lost_change_of_the_callers_tensor_is_caught() -> None:
    module = Mutates()
    _, found = _held(module, lambda x: module.linear(x * 2))
    assert found.equal is False
    assert any(reason.startswith("argument") for reason in found.reasons)


def test_dropout_that_draws_from_elsewhere_is_caught_and_so_are_numbers_it_does_not_draw() -> None:
    module = Drops()

    def own_random(x: Any) -> Any:
        mask = torch.bernoulli(torch.full((3, 4), 0.5), generator=torch.Generator().manual_seed(99))
        return {"logits": module.linear(x) * mask * 2, "hidden": [x]}

    _, found = _held(module, own_random)
    assert found.equal is False
    assert "it draws random numbers differently" in found.reasons


def test_a_lost_structure_is_caught() -> None:
    module = Drops().eval()
    _, found = _held(module, lambda x: [module.linear(x), [x]])
    assert found.equal is False
    assert math.isinf(found.error)


def test_rounding_within_the_dtype_passes_and_a_larger_difference_does_not() -> None:
    module = torch.nn.Linear(4, 4)
    _, close = _held(module, lambda x: module(x) * (1 + 3e-6))
    _, far = _held(module, lambda x: module(x) * (1 + 3e-4))
    assert (close.equal, far.equal) == (True, False)
    assert close.tolerance == 1e-5
    assert far.error == pytest.approx(3e-4, rel=0.05)


def test_half_precision_is_allowed_its_own_rounding() -> None:
    module = torch.nn.Linear(4, 4).half()
    _, found = _held(module, lambda x: (module(x).float() * 1.004).half(), _x().half())
    assert found.equal is True
    assert found.tolerance == 1e-2
    assert 1e-3 < found.error < 1e-2


def test_another_dtype_is_a_difference() -> None:
    module = torch.nn.Linear(4, 4)
    _, found = _held(module, lambda x: module(x).double())
    assert found.equal is False


def test_another_order_in_memory_is_only_mentioned() -> None:
    module = torch.nn.Conv2d(2, 2, 1)
    x = torch.rand(1, 2, 3, 3)
    _, found = _held(module, lambda x: module(x).contiguous(memory_format=torch.channels_last), x)
    assert found.equal is True
    assert found.notes == ("output has another order in memory",)


def test_the_programs_own_noise_widens_the_tolerance() -> None:
    noise = iter([1e-4, -1e-4] + [0.0] * 20)

    class Noisy(torch.nn.Linear):  # atomics on a GPU do this
        def forward(self, x: Any) -> Any:
            return super().forward(x) * (1 + next(noise))

    module = Noisy(4, 4)
    _, found = _held(module, lambda x: torch.nn.functional.linear(x, module.weight, module.bias) * (1 + 3e-4))
    assert found.equal is True
    assert found.tolerance == pytest.approx(8e-4, rel=0.01)


def test_an_output_that_no_two_runs_share_cannot_be_told() -> None:
    shapes = iter(range(1, 99))

    class Grows(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x)[:1].expand(next(shapes), 4)

    module = Grows(4, 4)
    _, found = _held(module, module)
    assert found.equal is None


def test_a_module_that_cannot_be_copied_is_never_called_equal() -> None:
    module = torch.nn.Linear(4, 4)
    module.lock = __import__("threading").Lock()
    output, found = _held(module, module)
    assert found.equal is None
    assert "no copy of it could be run" in found.reasons[0]
    assert output.shape == (3, 4)


def test_results_of_autograd_among_arguments_and_attributes_can_be_copied() -> None:
    module = torch.nn.Linear(4, 4)
    hidden = torch.nn.Linear(4, 4)(_x())
    module.last = module(hidden)
    _, found = _held(module, module, hidden)
    assert found.equal is True


def test_inference_tensors_can_be_compared() -> None:
    module = torch.nn.Linear(4, 4)

    def treated(x: Any) -> Any:
        with torch.inference_mode():
            return module(x)

    with torch.inference_mode():
        x = _x() + 0
    for given in (_x(), x):
        output, found = _held(module, treated, given)
        assert found.equal is True
        assert output.is_inference()


def test_a_script_in_inference_mode_can_be_compared() -> None:
    with torch.inference_mode():
        module = torch.nn.BatchNorm1d(4)
        _, found = _held(module, module)
    assert found.equal is True


def test_batch_norm_in_training_is_put_back_after_the_calls_on_other_values() -> None:
    module, twin = torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)
    _, found = _held(module, module)
    twin(_x())
    assert found.equal is True
    assert _all_equal(flat(torch, module.state_dict()), flat(torch, twin.state_dict()))


def test_a_cache_that_the_model_keeps_is_put_back_after_the_calls_on_other_values() -> None:
    class Remembers(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            self.seen = [*getattr(self, "seen", []), x.detach().clone()]
            return super().forward(x)

    module = Remembers(4, 4)
    _, found = _held(module, module)
    assert found.equal is True
    assert len(module.seen) == 1
    assert torch.equal(module.seen[0], _x())


def test_a_treatment_that_raises_on_other_values_is_unequal_and_one_that_raises_on_these_raises() -> None:
    module = torch.nn.Linear(4, 4)

    def picky(x: Any) -> Any:
        if x[0, 0] != 0.5:
            raise ValueError("only one kind of input")
        return module(x)

    _, found = _held(module, picky)
    assert found.equal is False
    assert "only one kind of input" in found.reasons[0]
    with pytest.raises(ValueError, match="only one kind"):
        _held(module, picky, _x() + 1)


def test_a_silenced_forward_hook_is_caught() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    fired: list[int] = []
    model[0].register_forward_hook(lambda *_: fired.append(1))
    _, kept = _held(model, model)
    _, lost = _held(model, lambda x: torch.relu(torch.nn.functional.linear(x, model[0].weight, model[0].bias)))
    assert kept.equal is True
    assert lost.equal is False
    assert "forward hooks no longer fire on 0" in lost.reasons
    assert len(model[0]._forward_hooks) == 1


def test_a_module_whose_weights_were_laid_out_anew_is_held_against_the_old_layout() -> None:
    module = torch.nn.Conv2d(3, 5, 3)
    shadow = Shadow(torch, module)
    seen: list[tuple[int, ...]] = []

    class Spy(torch.nn.Conv2d):
        def forward(self, x: Any) -> Any:
            seen.append(self.weight.stride())
            return super().forward(x)

    module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last)
    module.__class__ = Spy
    _, found = shadow.compared(
        lambda x: torch.conv2d(x, module.weight, module.bias), (torch.rand(1, 3, 8, 8),), {}, True
    )
    assert found.equal is True
    assert set(seen) == {(27, 9, 3, 1)}


def test_a_changed_parameter_is_compared() -> None:
    class Clamps(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.weight.clamp_(-0.1, 0.1)
            return super().forward(x)

    module = Clamps(4, 4)

    def without_writing(x: Any) -> Any:
        return torch.nn.functional.linear(x, module.weight.clamp(-0.1, 0.1), module.bias)

    _, found = _held(module, without_writing)
    assert found.equal is False
    assert "parameter weight is missing" in found.reasons


def test_indices_stay_indices_when_values_are_perturbed() -> None:
    values = {"ids": torch.tensor([[1, 2, 9]]), "mask": torch.tensor([True, False]), "x": torch.tensor([1.0, 2.0])}
    changed = perturb(torch, values, negate=True)
    assert changed == 3
    assert values["ids"].tolist() == [[9, 2, 1]]
    assert values["mask"].tolist() == [False, True]
    assert values["x"].tolist() == [-1.625, -0.875]  # turned round, times -0.75, minus 0.125


def test_a_copy_shares_memory_where_the_original_does() -> None:
    base = torch.zeros(4)
    first, second = duplicate(torch, (base, base[1:]))
    first.fill_(3)
    assert second.tolist() == [3, 3, 3]
    assert base.tolist() == [0, 0, 0, 0]


def _all_equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[path]) if isinstance(value, torch.Tensor) else value == other[path]
        for path, value in one.items()
    )


def test_what_a_compiler_notes_in_a_module_at_its_first_call_is_no_state_of_its_own() -> None:
    module = torch.nn.Linear(2, 2)
    before = state_of(torch, module)
    module._torchdynamo_wrapper_id = 7
    assert state_of(torch, module).keys() == before.keys()
    module.count = 7
    assert state_of(torch, module).keys() != before.keys()
