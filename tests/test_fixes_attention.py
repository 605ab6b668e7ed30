"""Attention written out is found in many forms and gives the same answers as one call; look-alikes are left alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from profiler_doctor.analyzer.capture.child.users_function import users_function  # noqa: E402
from profiler_doctor.analyzer.kinds import Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes._attention_equations import of_scores, of_values  # noqa: E402
from profiler_doctor.fixes.sdpa import FIX as SDPA  # noqa: E402

TOKENS, FEATURES = 8, 4
INF, LEAST = math.inf, torch.finfo(torch.float32).min
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
PADDING = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0]], dtype=torch.bool).view(2, 1, 1, TOKENS)
SLOPES = torch.tensor([0.5, 0.25, 0.125]).view(3, 1, 1) * -(torch.arange(8.0)[:, None] - torch.arange(8.0)).abs()

Form = Callable[..., Any]


class Module(nn.Module):
    """A root that is one function of tensors, with a mask of its own."""

    def __init__(self, form: Form, mask: Any = CAUSAL) -> None:
        super().__init__()
        self.form = form
        self.mask = mask.clone()
        self.divisor = torch.sqrt(torch.FloatTensor([FEATURES]))
        self.dropout = nn.Dropout(0.5)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return self.form(self, q, k, v)


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _heads(batch: tuple[int, ...] = (2, 3), asks: int = TOKENS, **more: Any) -> tuple[Any, ...]:
    shapes = (*batch, asks, FEATURES), (*batch, TOKENS, FEATURES), (*batch, TOKENS, FEATURES)
    return tuple(torch.randn(shape, **more) for shape in shapes)


@contextmanager
def _treated(module: Any, args: tuple[Any, ...]) -> Iterator[tuple[Any, list[bool]]]:
    """The treated call, and whether each of torch's attentions that it then makes is causal."""
    seen: list[bool] = []
    original = F.scaled_dot_product_attention

    def attention(*given: Any, **how: Any) -> Any:
        seen.append(how.get("is_causal", False))
        return original(*given, **how)

    with pytest.MonkeyPatch.context() as patch, SDPA.treat(Root(module, args, {}, module._call_impl)) as call:  # type: ignore[misc]
        patch.setattr(F, "scaled_dot_product_attention", attention)
        yield call, seen


def _close(one: Any, other: Any) -> bool:
    return bool(torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True))


def _dot(s: Module, q: Any, k: Any) -> Any:
    return q @ k.transpose(-2, -1) / math.sqrt(FEATURES)


def _in_place(s: Module, q: Any, k: Any, v: Any) -> Any:
    scores = torch.matmul(q, k.mT)
    scores *= 0.5
    scores.masked_fill_(~s.mask, LEAST)
    return F.softmax(scores, -1).matmul(v)


def _nano(s: Module, q: Any, k: Any, v: Any) -> Any:
    tril = torch.tril(torch.ones(TOKENS, TOKENS)).view(1, 1, TOKENS, TOKENS)
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    return torch.dropout(F.softmax(scores.masked_fill(tril == 0, float("-inf")), dim=-1), 0.5, train=False) @ v


CAUSAL_FORMS: dict[str, Form] = {
    "masked_fill": lambda s, q, k, v: _dot(s, q, k).masked_fill(~s.mask, -INF).softmax(-1) @ v,
    "in place": _in_place,
    "a mask made in the call": _nano,
    "where": lambda s, q, k, v: torch.where(s.mask, _dot(s, q, k), -INF).softmax(-1) @ v,
    "where with a tensor": lambda s, q, k, v: torch.where(s.mask, _dot(s, q, k), torch.tensor(LEAST)).softmax(3) @ v,
    "where the other way": lambda s, q, k, v: torch.where(~s.mask, torch.full([], -1e4), _dot(s, q, k)).softmax(-1) @ v,
    "added": lambda s, q, k, v: F.softmax(_dot(s, q, k) + torch.full((8, 8), -INF).triu(1), dim=-1) @ v,
    "subtracted": lambda s, q, k, v: (_dot(s, q, k) - (1 - s.mask.float()) * 1e9).softmax(-1) @ v,
    "scaled after it": lambda s, q, k, v: ((q @ k.mT).masked_fill(~s.mask, -1e9) * 0.5).softmax(-1) @ v,
    "cast that is none": lambda s, q, k, v: (
        _dot(s, q, k).masked_fill(~s.mask, -INF).float().softmax(-1).to(v.dtype) @ v
    ),
    "layers": lambda s, q, k, v: s.dropout(s.softmax(_dot(s, q, k).masked_fill(~s.mask, -INF))) @ v,
    "two masks": lambda s, q, k, v: (
        _dot(s, q, k).masked_fill(~s.mask, -INF).masked_fill(CAUSAL[0] & False, -INF).softmax(-1) @ v
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", CAUSAL_FORMS.values(), ids=CAUSAL_FORMS.keys())
def test_a_mask_that_hides_the_future_alone_becomes_a_causal_call(form: Form) -> None:
    module, heads = Module(form).eval(), _heads()
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == [True]


PLAIN_FORMS: dict[str, tuple[Form, tuple[Any, ...]]] = {
    "no mask": (lambda s, q, k, v: _dot(s, q, k).softmax(-1) @ v, _heads()),
    "no scale": (lambda s, q, k, v: (q @ k.mT).softmax(-1) @ v, _heads()),
    "scaled queries": (lambda s, q, k, v: ((q * 0.3) @ k.mT).softmax(-1) @ v, _heads()),
    "a tensor's scale": (lambda s, q, k, v: (q @ k.permute(0, 1, 3, 2) / s.divisor).softmax(-1) @ v, _heads()),
    "bmm": (lambda s, q, k, v: torch.bmm(torch.softmax(torch.bmm(q, k.mT), dim=2), v), _heads((6,))),
    "no batch": (lambda s, q, k, v: (q @ k.T).softmax(-1) @ v, _heads(())),
    "baddbmm": (
        lambda s, q, k, v: torch.baddbmm(SLOPES, q, k.mT, beta=0.5, alpha=0.7).softmax(-1).bmm(v), _heads((3,)),
    ),
    "einsum": (
        lambda s, q, k, v: torch.einsum(
            "bhij,bjhd->bihd", (torch.einsum("bihd,bjhd->bhij", q, k) * 0.5).softmax(-1), v
        ),
        tuple(torch.randn(2, TOKENS, 3, FEATURES) for _ in range(3)),
    ),
    "einsum with dots": (
        lambda s, q, k, v: torch.einsum(
            "...ij,...jd->...id", torch.einsum("... i d, ... j d -> ... i j", q, k).softmax(-1), v
        ),
        _heads(),
    ),
    "cross attention": (lambda s, q, k, v: _dot(s, q, k).softmax(-1) @ v, _heads(asks=5)),
    "one query": (lambda s, q, k, v: _dot(s, q, k).softmax(-1) @ v, _heads(asks=1)),
    "padding": (lambda s, q, k, v: _dot(s, q, k).masked_fill(~PADDING, LEAST).softmax(-1) @ v, _heads()),
    "padding and the future": (
        lambda s, q, k, v: _dot(s, q, k).masked_fill(~(PADDING & s.mask), -INF).softmax(-1) @ v, _heads(),
    ),
    "a bias by distance": (lambda s, q, k, v: (SLOPES + _dot(s, q, k)).softmax(-1) @ v, _heads()),
    "a bias and a mask": (
        lambda s, q, k, v: (_dot(s, q, k) + SLOPES).masked_fill(~s.mask, -INF).softmax(-1) @ v, _heads(),
    ),
    "one head of keys for all": (
        lambda s, q, k, v: _dot(s, q, k[:, :1]).softmax(-1) @ v[:, :1], _heads(),
    ),
    "keys repeated": (
        lambda s, q, k, v: (
            _dot(s, q, k[:, :1].expand(2, 3, 8, 4)).softmax(-1) @ v[:, :1].repeat_interleave(3, 1)
        ),
        _heads(),
    ),
    "keys in another order": (lambda s, q, k, v: (q @ k.mT.contiguous()).softmax(-1) @ v, _heads()),
    "double": (lambda s, q, k, v: _dot(s, q, k).softmax(-1) @ v, _heads(dtype=torch.float64)),
}  # fmt: skip


@pytest.mark.parametrize(("form", "heads"), PLAIN_FORMS.values(), ids=PLAIN_FORMS.keys())
def test_other_forms_become_a_call_with_the_mask_or_bias_they_have(form: Form, heads: tuple[Any, ...]) -> None:
    module = Module(form).eval()
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == [False]


LEFT_ALONE: dict[str, Form] = {
    "nothing of the kind": lambda s, q, k, v: (q * k).softmax(-1) * v,
    "weights given back": lambda s, q, k, v: ((w := _dot(s, q, k).softmax(-1)) @ v, w),
    "scores given back": lambda s, q, k, v: ((w := _dot(s, q, k)).softmax(-1) @ v, w),
    "weights used": lambda s, q, k, v: (w := _dot(s, q, k).softmax(-1)) @ v + w.mean(),
    "scores used": lambda s, q, k, v: ((w := _dot(s, q, k)) - w.amax(-1, keepdim=True)).softmax(-1) @ v,
    "softmax over queries": lambda s, q, k, v: _dot(s, q, k).softmax(-2) @ v,
    "softmax over heads": lambda s, q, k, v: _dot(s, q, k).softmax(1) @ v,
    "capped scores": lambda s, q, k, v: (torch.tanh(_dot(s, q, k)) * 5).softmax(-1) @ v,
    "multiplied by a mask": lambda s, q, k, v: (_dot(s, q, k) * s.mask).softmax(-1) @ v,
    "weights masked": lambda s, q, k, v: _dot(s, q, k).softmax(-1).masked_fill(~s.mask, 0.0) @ v,
    "hidden by a small number": lambda s, q, k, v: _dot(s, q, k).masked_fill(~s.mask, -5.0).softmax(-1) @ v,
    "hidden by an unknown number": lambda s, q, k, v: torch.where(s.mask, _dot(s, q, k), q.min()).softmax(-1) @ v,
    "weights on the right": lambda s, q, k, v: v.mT @ _dot(s, q, k).softmax(-1),
    "log of it": lambda s, q, k, v: F.log_softmax(_dot(s, q, k), -1) @ v,
    "in another type": lambda s, q, k, v: (_dot(s, q, k).double().softmax(-1).float()) @ v,
    "negative scale": lambda s, q, k, v: (q @ k.mT * -1.0).softmax(-1) @ v,
    "wider by its bias": lambda s, q, k, v: (_dot(s, q[:, :, :1], k) + SLOPES).softmax(-1) @ v,
    "keys changed between": lambda s, q, k, v: ((w := q @ k.mT), k.mul_(2), w.softmax(-1) @ v)[2],
    "scores and themselves": lambda s, q, k, v: ((w := _dot(s, q, k)) + w).softmax(-1) @ v,
    "hidden by a number that is scaled away": lambda s, q, k, v: (
        (_dot(s, q, k).masked_fill(~s.mask, -1e4) * 1e-4).softmax(-1) @ v
    ),
    "a product of weights": lambda s, q, k, v: ((w := _dot(s, q, k).softmax(-1)) @ w) @ v,
}


@pytest.mark.parametrize("form", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_only_looks_like_attention_is_left_alone(form: Form) -> None:
    module = Module(form).eval()
    with pytest.raises(Unsuitable, match="no attention written out was found"), _treated(module, _heads()):
        pass


def test_one_of_two_attentions_keeps_its_weights_and_the_other_becomes_a_call() -> None:
    def form(s: Module, q: Any, k: Any, v: Any) -> Any:
        weights = _dot(s, q, k).softmax(-1)
        return _dot(s, weights @ v, k).softmax(-1) @ v, weights

    module, heads = Module(form), _heads()
    with _treated(module, heads) as (call, seen):
        assert call.note == "1 attention became one call"
        for one, other in zip(call(*heads), module(*heads), strict=True):
            assert _close(one, other)
    assert seen == [False]


FUTURE = ~CAUSAL
BLIND = FUTURE | (torch.arange(TOKENS) == 2)[:, None]
FLOATS = torch.zeros(TOKENS, TOKENS).masked_fill(BLIND, -INF)
LAST = torch.arange(TOKENS).expand(2, TOKENS) < torch.tensor([[0], [3]])


@pytest.mark.parametrize(
    ("masks", "batch"),
    [
        ({}, (2,)),
        ({}, ()),
        ({"attn_mask": FUTURE}, (2,)),
        ({"attn_mask": BLIND}, (2,)),
        ({"attn_mask": FLOATS}, ()),
        ({"attn_mask": torch.stack([FUTURE, BLIND, FUTURE, FUTURE, FUTURE, FUTURE])}, (2,)),
        ({"key_padding_mask": LAST}, (2,)),
        ({"key_padding_mask": LAST, "attn_mask": FUTURE}, (2,)),
    ],
)
def test_attention_weights_that_a_layer_gives_and_nobody_takes_do_not_count_as_used(
    masks: dict[str, Any], batch: tuple[int, ...]
) -> None:
    layer = nn.MultiheadAttention(12, 3, batch_first=True).eval()

    def form(s: Module, q: Any, k: Any, v: Any) -> Any:
        return layer(q, k, v, **masks)[0]

    module, x = Module(form).eval(), torch.randn(*batch, TOKENS, 12, requires_grad=True)
    with _treated(module, (x, x, x)) as (call, seen):
        assert _close(call(x, x, x), module(x, x, x))
    assert seen == [False]


def test_a_layer_whose_weights_are_taken_is_left_alone() -> None:
    layer = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    x = torch.randn(2, TOKENS, 12)
    with (
        pytest.raises(Unsuitable, match="weights are used"),
        _treated(Module(lambda s, q, k, v: layer(q, k, v)), (x, x, x)),
    ):
        pass


def test_a_mask_changed_in_place_between_calls_is_looked_at_again() -> None:
    module, heads = Module(CAUSAL_FORMS["masked_fill"]), _heads()
    with _treated(module, heads) as (call, seen):
        call(*heads)
        module.mask[0, 3] = True
        assert _close(call(*heads), module(*heads))
        module.mask = CAUSAL.clone()
        assert _close(call(*heads), module(*heads))
        module.mask = CAUSAL.clone().T.contiguous()
        assert _close(call(*heads), module(*heads))
    assert seen == [True, False, True, False]


def _set_through_a_view(s: Module, q: Any, k: Any, v: Any) -> Any:
    mask = s.mask.clone()
    mask[0].fill_(True)
    return _dot(s, q, k).masked_fill(~mask, -INF).softmax(-1) @ v


def _set_by_item(s: Module, q: Any, k: Any, v: Any) -> Any:
    mask = s.mask.clone()
    mask[0] = True
    return _dot(s, q, k).masked_fill(~mask, -INF).softmax(-1) @ v


@pytest.mark.parametrize("form", [_set_through_a_view, _set_by_item])
def test_a_mask_changed_in_the_call_itself_is_not_taken_for_what_it_was(form: Form) -> None:
    module, heads = Module(form).eval(), _heads()
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == [False]


def test_what_is_written_elsewhere_does_not_change_what_it_was_made_of() -> None:
    def form(s: Module, q: Any, k: Any, v: Any) -> Any:
        more, place = q + 1, torch.empty_like(q)
        torch.mul(more, k, out=place)
        return CAUSAL_FORMS["masked_fill"](s, q, k, v) + more - place

    module, heads = Module(form).eval(), _heads()
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == [True]


def test_one_attention_may_be_made_of_another() -> None:
    def form(s: Module, q: Any, k: Any, v: Any) -> Any:
        first = CAUSAL_FORMS["masked_fill"](s, q, k, v)
        return CAUSAL_FORMS["where"](s, first, first, first)

    module, heads = Module(form).eval(), _heads()
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == [True, True]


def test_a_mask_whose_changes_cannot_be_known_is_never_taken_for_causal() -> None:
    module, heads = Module(CAUSAL_FORMS["masked_fill"]), _heads()
    with torch.inference_mode():
        module.mask = CAUSAL.clone()
    with torch.no_grad(), _treated(module, heads) as (call, seen):
        call(*heads)
        with torch.inference_mode():
            module.mask[0, 3] = True
        assert _close(call(*heads), module(*heads))
    assert seen == [False, False]


def test_a_mask_made_anew_for_each_call_is_passed_on_after_a_few_looks() -> None:
    def form(s: Module, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return _dot(s, q, k).masked_fill(~mask, -INF).softmax(-1) @ v

    class Given(Module):
        def forward(self, *args: Any) -> Any:
            return self.form(self, *args)

    module, heads, masks = Given(form), _heads(), [CAUSAL.clone() for _ in range(30)]
    with _treated(module, (*heads, masks[0])) as (call, seen):
        for mask in masks:
            call(*heads, mask)
    assert seen[0]
    assert not seen[-1]
    assert seen.count(True) < 16


@pytest.mark.parametrize("value", [-INF, LEAST, -1e9])
def test_a_token_that_sees_nothing_gets_what_it_got(value: float) -> None:
    def form(s: Module, q: Any, k: Any, v: Any) -> Any:
        return _dot(s, q, k).masked_fill(~s.mask, value).softmax(-1) @ v

    mask = CAUSAL.clone()
    mask[2] = False
    module, heads = Module(form, mask), _heads()
    with _treated(module, heads) as (call, seen):
        output = call(*heads)
        assert _close(output, module(*heads))
        assert bool(output[:, :, 2].isnan().all()) is (value == -INF)
    assert seen == [False]


def test_hiding_by_a_number_that_scores_show_through_is_left_alone_where_a_token_may_see_nothing() -> None:
    mask = CAUSAL.clone()
    mask[2] = False
    module, heads = Module(lambda s, q, k, v: _dot(s, q, k).masked_fill(~s.mask, -2e4).softmax(-1) @ v, mask), _heads()
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == []


def test_more_keys_than_queries_under_a_triangle_are_not_called_causal() -> None:
    module = Module(lambda s, q, k, v: _dot(s, q, k).masked_fill(~s.mask[-5:], -INF).softmax(-1) @ v)
    heads = _heads(asks=5)
    with _treated(module, heads) as (call, seen):
        assert _close(call(*heads), module(*heads))
    assert seen == [False]


def test_other_lengths_are_looked_at_by_themselves() -> None:
    def form(s: Module, q: Any, k: Any, v: Any) -> Any:
        length = q.shape[-2]
        return _dot(s, q, k).masked_fill(~s.mask[:length, :length], -INF).softmax(-1) @ v

    mask = CAUSAL.clone()
    mask[7, 0] = False
    module = Module(form, mask)
    with _treated(module, _heads()) as (call, seen):
        for length in (8, 5, 6, 8):
            heads = tuple(one[..., :length, :].contiguous() for one in _heads())
            assert _close(call(*heads), module(*heads))
    assert seen == [False, True, True, False]


def test_gradients_flow_through_it() -> None:
    module, heads = Module(CAUSAL_FORMS["masked_fill"]), _heads(requires_grad=True)
    expected = torch.autograd.grad(module(*heads).square().sum(), heads)
    with _treated(module, heads) as (call, _):
        found = torch.autograd.grad(call(*heads).square().sum(), heads)
    assert all(_close(one, other) for one, other in zip(found, expected, strict=True))


def test_a_learned_bias_has_its_gradient_too() -> None:
    bias = torch.zeros(3, 8, 8, requires_grad=True)
    module, heads = Module(lambda s, q, k, v: (_dot(s, q, k) + bias).softmax(-1) @ v), _heads()
    expected = torch.autograd.grad(module(*heads).square().sum(), bias)[0]
    with _treated(module, heads) as (call, _):
        assert _close(torch.autograd.grad(call(*heads).square().sum(), bias)[0], expected)


def test_weights_are_dropped_in_training_alone() -> None:
    module, heads = Module(CAUSAL_FORMS["layers"]).train(), _heads()
    with _treated(module, heads) as (call, _):
        assert not torch.equal(call(*heads), call(*heads))
        module.eval()
        assert torch.equal(call(*heads), call(*heads))


def test_looking_for_it_draws_no_random_numbers_and_leaves_buffers_alone() -> None:
    class Counting(Module):
        def __init__(self, form: Form) -> None:
            super().__init__(form)
            self.calls: Any
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, q: Any, k: Any, v: Any) -> Any:
            self.calls += 1
            return super().forward(q + torch.rand(()), k, v)

    module, heads = Counting(CAUSAL_FORMS["layers"]).train(), _heads()
    before = torch.get_rng_state()
    with _treated(module, heads):
        assert torch.equal(torch.get_rng_state(), before)
        assert module.calls == 0
    assert not [name for name in vars(module) if "compile" in name]


def test_what_torch_cannot_look_into_is_left_alone_with_the_reason() -> None:
    class Broken(nn.Module):
        def forward(self, x: Any) -> Any:
            raise RuntimeError("out of order")

    with (
        pytest.raises(Unsuitable, match="cannot look into the model: out of order"),
        _treated(Broken(), (torch.ones(1),)),
    ):
        pass


def test_a_function_that_reads_its_own_tensors_is_looked_into() -> None:
    q, k, v = _heads()

    def reads() -> Any:
        return (q @ k.mT).masked_fill(~CAUSAL, -INF).softmax(-1) @ v

    with _treated(users_function(torch, reads), ()) as (call, seen):  # type: ignore[arg-type]
        assert _close(call(), reads())
    assert seen == [True]


def test_equations_are_read_as_they_are_written() -> None:
    assert of_scores("bqhd,bkhd->bhqk") == ((0, 2, 1, 3), (0, 2, 1, 3))
    assert of_scores("id,jd->ij") == (None, None)
    assert of_values("bhqk,bkhd->bqhd") == ((0, 2, 1, 3), (0, 2, 1, 3))
    assert of_values("bhqk,bhdk->bhqd") == ((0, 1, 3, 2), None)
    for equation in (
        "bid,bjd->bji",
        "bide,bjde->bij",
        "bid,bjd",
        "bid,jd->bij",
        "iid,ijd->iij",
        "b...id,b...jd->b...ij",
    ):
        assert of_scores(equation) is None, equation
    for equation in ("bij,bjd->bd", "bij,bijd->bid", "bij,jd->bid"):
        assert of_values(equation) is None, equation
