"""Fixes that work on a copy of the model: which parts they touch, and what they leave alone."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes.fold_conv_bn import FIX as FOLD  # noqa: E402
from profiler_doctor.fixes.full_precision_on_cpu import FIX as FULL  # noqa: E402

TRAINING = Machine(
    device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=True
)  # fmt: skip


class Block(torch.nn.Module):
    """A convolution and its normalisation, whose order of attributes tells nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = torch.nn.BatchNorm2d(4)
        self.conv = torch.nn.Conv2d(3, 4, 3, bias=False)
        self.bn.running_mean.uniform_(-1, 1)
        self.bn.running_var.uniform_(0.5, 2)
        self.bn.weight.data.uniform_(0.5, 2)
        self.eval()

    def forward(self, x: Any) -> Any:
        return self.bn(self.conv(x)).relu()


class Skip(Block):
    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return self.bn(y) + y


class Cats(Block):
    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return torch.cat([self.bn(y), y])


class Twice(Block):
    def forward(self, x: Any) -> Any:
        return self.bn(self.conv(x)) + self.bn(self.conv(x + 1))


class Both(torch.nn.ModuleList):
    def forward(self, x: Any) -> Any:
        return self[0](x) + self[1](x)


def _x() -> Any:
    return torch.rand(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def _root(module: Any, *args: Any, **kwargs: Any) -> Root:
    return Root(module, args, kwargs, module._call_impl)


def _apart(one: Any, other: Any) -> float:
    return float((one.double() - other.double()).norm() / one.double().norm())


def test_a_folded_pair_gives_the_same_answers_and_no_longer_normalises() -> None:
    block = Block()
    with FOLD.treat(_root(block, _x())) as call:
        x = _x() * 3 - 1
        assert 0 < _apart(block(x), call(x)) < 1e-6
        folded = call.module
        assert folded.conv.bias is not None
        assert torch.equal(folded.bn(x), x)
    assert block.conv.bias is None


def test_what_is_not_folded_is_shared_with_the_users_model() -> None:
    block = torch.nn.Sequential(Block(), torch.nn.Flatten(), torch.nn.Linear(64, 2)).eval()
    with FOLD.treat(_root(block, _x())) as call:
        assert call.module[2].weight is block[2].weight
        assert call.module[0].conv.weight is not block[0].conv.weight
        assert call.module[0].bn.running_mean is block[0].bn.running_mean


@pytest.mark.parametrize("kind", [Skip, Cats, Twice])
def test_a_convolution_whose_output_is_used_elsewhere_or_again_is_not_folded(kind: type[Any]) -> None:
    with pytest.raises(Unsuitable, match="no convolution can be folded"), FOLD.treat(_root(kind(), _x())):
        pass


def test_normalisation_in_training_mode_is_not_folded() -> None:
    with pytest.raises(Unsuitable, match="no normalisation follows"), FOLD.treat(_root(Block().train(), _x())):
        pass
    assert FOLD.applies(TRAINING) == "the script trains, and folded weights could not be trained"


def test_a_pair_with_a_forward_hook_is_left_alone_and_says_why() -> None:
    hooked, free = Block(), Block()
    seen: list[Any] = []
    hooked.conv.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    with pytest.raises(Unsuitable, match="has a forward hook"), FOLD.treat(_root(hooked, _x())):
        pass
    both = Both([hooked, free])
    with FOLD.treat(_root(both, _x())) as call:
        seen.clear()
        call(_x())
        assert len(seen) == 1
        assert call.module[0].conv.bias is None
        assert call.module[1].conv.bias is not None


def test_hooks_registered_after_folding_fire_too() -> None:
    block = torch.nn.Sequential(Block(), torch.nn.ReLU())
    with FOLD.treat(_root(block, _x())) as call:
        fired: list[int] = []
        block[1].register_forward_hook(lambda *_: fired.append(1))
        call(_x())
        assert fired == [1]


def test_watching_a_call_to_find_the_pairs_changes_nothing_in_the_users_model() -> None:
    class Counts(Block):
        calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return super().forward(x)

    block = Counts()
    with FOLD.treat(_root(block, _x())):
        assert block.calls == 0
        assert not block.conv._forward_hooks
        assert not block.bn._forward_pre_hooks


class Halves(torch.nn.Module):
    """Gives outputs of several dtypes, in a structure."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.half().eval()

    def forward(self, x: Any, *, scale: Any) -> Any:
        y = self.second(self.first(x)) * scale
        return OrderedDict(logits=y, best=y.argmax(-1), exact=y.float().sum(), parts=[y, (y,)])


def test_every_output_comes_back_in_the_dtype_it_had() -> None:
    model, x, scale = Halves(), torch.rand(3, 4).half(), torch.tensor(2.0).half()
    expected = model(x, scale=scale)
    with FULL.treat(_root(model, x, scale=scale)) as call:
        found = call(x, scale=scale)
    assert type(found) is OrderedDict
    assert [found[key].dtype for key in ("logits", "best", "exact")] == [torch.half, torch.int64, torch.float32]
    assert found["parts"][1][0].dtype == torch.half
    assert _apart(expected["logits"], found["logits"]) < 1e-2


def test_the_float32_copy_keeps_tied_weights_tied_and_the_users_model_half() -> None:
    model = Halves()
    with FULL.treat(_root(model, torch.rand(3, 4).half(), scale=torch.ones(()).half())) as call:
        copied = call.module
        assert copied.first.weight is copied.second.weight
        assert copied.first.weight.dtype == torch.float32
        assert type(copied.first.weight) is torch.nn.Parameter
    assert model.first.weight.dtype == torch.half


def test_a_model_without_float16_weights_is_none_for_it() -> None:
    with pytest.raises(Unsuitable, match="no float16 weights"), FULL.treat(_root(torch.nn.Linear(2, 2))):
        pass
