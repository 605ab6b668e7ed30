"""Fixes for optimizers and loaders, which change how the script's own objects are made."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

from profiler_doctor.analyzer.kinds import Fix, Machine  # noqa: E402
from profiler_doctor.fixes.deeper_prefetch import FIX as PREFETCH  # noqa: E402
from profiler_doctor.fixes.foreach_optimizer import FIX as FOREACH  # noqa: E402
from profiler_doctor.fixes.fused_optimizer import FIX as FUSED  # noqa: E402
from profiler_doctor.fixes.grouped_parameters import FIX as GROUPED  # noqa: E402
from profiler_doctor.fixes.more_workers import FIX as MORE  # noqa: E402
from profiler_doctor.fixes.no_workers import FIX as NONE  # noqa: E402
from profiler_doctor.fixes.persistent_workers import FIX as PERSISTENT  # noqa: E402
from profiler_doctor.fixes.pin_memory import FIX as PIN  # noqa: E402
from profiler_doctor.fixes.set_to_none import FIX as TO_NONE  # noqa: E402
from profiler_doctor.fixes.whole_batches import FIX as WHOLE  # noqa: E402

MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=3, threads=2, has_root=True, training=True)


def _under(fix: Fix) -> Any:
    assert fix.set_up is not None
    return fix.set_up(MACHINE)


def _weights() -> list[Any]:
    weights = [torch.nn.Parameter(torch.linspace(0.1, 1, 4) + n) for n in range(3)]
    for weight in weights:
        weight.grad = torch.full((4,), 0.5)
    return weights


@pytest.mark.parametrize(("fix", "choice"), [(FUSED, "fused"), (FOREACH, "foreach")], ids=["fused", "foreach"])
@pytest.mark.parametrize("kind", ["AdamW", "Adam", "SGD", "Adagrad"])
def test_an_optimizer_is_made_with_the_choice_and_steps_to_the_same_weights(fix: Fix, choice: str, kind: str) -> None:
    make = getattr(torch.optim, kind)
    plain, changed = _weights(), _weights()
    make(plain, lr=0.1).step()
    with _under(fix):
        optimizer = make([{"params": iter(changed)}], lr=0.1)
        optimizer.step()
    assert optimizer.param_groups[0][choice] is True
    for one, other in zip(plain, changed, strict=True):
        assert torch.allclose(one, other, rtol=1e-6)


def test_what_the_script_chose_itself_stays() -> None:
    with _under(FUSED):
        assert torch.optim.AdamW(_weights(), foreach=True).param_groups[0]["fused"] is None


def test_weights_that_cannot_be_fused_are_left_as_they_were() -> None:
    weights = [torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]
    with _under(FUSED):
        optimizer = torch.optim.AdamW(weights)
    assert optimizer.param_groups[0]["fused"] is None


def test_an_optimizer_without_such_an_implementation_is_left_alone() -> None:
    with _under(FUSED):
        assert torch.optim.LBFGS(_weights()).param_groups[0]["lr"] == 1


def test_groups_of_like_settings_become_one_and_the_weights_after_a_step_are_the_same() -> None:
    plain, changed = _weights(), _weights()

    def groups(weights: list[Any]) -> Any:
        yield {"params": [weights[0]], "weight_decay": 0.1}
        yield {"params": weights[1], "weight_decay": 0.0}
        yield {"params": [weights[2]], "weight_decay": 0.1}

    torch.optim.AdamW(groups(plain), lr=0.1).step()
    with _under(GROUPED):
        optimizer = torch.optim.AdamW(groups(changed), lr=0.1)
        optimizer.step()
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 1]
    for one, other in zip(plain, changed, strict=True):
        assert torch.equal(one, other)


def test_named_groups_and_plain_lists_of_weights_stay_as_they_are() -> None:
    weights = _weights()
    with _under(GROUPED):
        named = [{"params": [weight], "name": str(n)} for n, weight in enumerate(weights)]
        assert len(torch.optim.SGD(named, lr=0.1).param_groups) == 3
        assert len(torch.optim.SGD(weights, lr=0.1).param_groups) == 1


def test_gradients_become_none_even_where_zeros_were_asked_for() -> None:
    model = torch.nn.Linear(2, 2)
    with _under(TO_NONE):
        for clear in (model.zero_grad, torch.optim.SGD(model.parameters(), lr=0.1).zero_grad):
            model(torch.ones(1, 2)).sum().backward()
            clear(set_to_none=False)
            assert model.weight.grad is None


DATA = TensorDataset(torch.arange(10.0), torch.arange(10))


@pytest.mark.parametrize(
    ("fix", "given", "expected"),
    [
        (MORE, {}, {"num_workers": 2, "persistent_workers": True}),
        (MORE, {"num_workers": 1}, {"num_workers": 1}),
        (NONE, {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4}, {"num_workers": 0}),
        (PERSISTENT, {"num_workers": 2}, {"persistent_workers": True}),
        (PERSISTENT, {}, {"persistent_workers": False}),
        (PREFETCH, {"num_workers": 2}, {"prefetch_factor": 4}),
        (PREFETCH, {"num_workers": 1, "prefetch_factor": 3}, {"prefetch_factor": 6}),
        (PIN, {}, {"pin_memory": True}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_loader_is_made_with_the_settings_of_the_fix(
    fix: Fix, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    with _under(fix):
        loader = DataLoader(DATA, 4, **given)
    assert {name: getattr(loader, name) for name in expected} == expected
    assert loader.batch_size == 4


@pytest.mark.parametrize("given", [{}, {"shuffle": True}, {"drop_last": True}])
def test_whole_batches_hold_the_same_samples_in_the_same_order_and_form(given: dict[str, Any]) -> None:
    def batches() -> list[Any]:
        torch.manual_seed(3)
        return list(DataLoader(DATA, batch_size=4, **given))

    plain = batches()
    with _under(WHOLE):
        whole = batches()
    assert [type(batch) for batch in whole] == [list] * len(plain)
    for one, other in zip(plain, whole, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one, other, strict=True))


def test_a_data_set_that_may_not_take_lists_is_fetched_as_before() -> None:
    class Single(Dataset[int]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            return index

    with _under(WHOLE):
        assert [batch.tolist() for batch in DataLoader(Single(), batch_size=4)] == [[0, 1, 2, 3], [4, 5]]
