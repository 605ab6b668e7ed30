"""Fixes that change a mode, a precision or an argument: what they do while they last, and when they keep out."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes.autocast_bf16 import FIX as AUTOCAST  # noqa: E402
from profiler_doctor.fixes.autocast_off import FIX as AUTOCAST_OFF  # noqa: E402
from profiler_doctor.fixes.debugging_off import FIX as DEBUGGING_OFF  # noqa: E402
from profiler_doctor.fixes.dynamic_shapes import FIX as DYNAMIC  # noqa: E402
from profiler_doctor.fixes.eval_mode import FIX as EVAL  # noqa: E402
from profiler_doctor.fixes.flush_denormals import FIX as FLUSH  # noqa: E402
from profiler_doctor.fixes.int8_dynamic import FIX as INT8  # noqa: E402
from profiler_doctor.fixes.is_causal import FIX as IS_CAUSAL  # noqa: E402
from profiler_doctor.fixes.sdpa import FIX as SDPA  # noqa: E402
from profiler_doctor.fixes.weights_bf16 import FIX as WEIGHTS  # noqa: E402


def _machine(**more: Any) -> Machine:
    known = {"device": "cpu", "torch": "2", "cpu_flags": frozenset(), "cpus": 2, "threads": 2, "has_root": True}
    return Machine(**{**known, "training": False, **more})


def _root(module: Any, *args: Any) -> Root:
    return Root(module, args, {}, module._call_impl)


def _under(fix: Fix) -> Any:
    assert fix.set_up is not None
    return fix.set_up(_machine())


def test_a_call_runs_in_eval_mode_and_each_layer_has_its_own_mode_back_after_it() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(8, 8))
    model[1].eval()
    x = torch.ones(4, 8)
    with EVAL.treat(_root(model, x)) as call:
        assert torch.equal(call(x), model[1](x))
        assert [part.training for part in model.modules()] == [True, True, False]
    with pytest.raises(Unsuitable, match="in eval mode already"), EVAL.treat(_root(model.eval(), x)):
        pass


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Mask and `is_causal` of each call that reaches torch."""
    calls: list[tuple[Any, Any]] = []
    original = functional.scaled_dot_product_attention

    def noted(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False):
        calls.append((attn_mask, is_causal))
        return original(query, key, value, attn_mask, dropout_p, is_causal)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", noted)
    return calls


CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
ADDED = torch.zeros(1, 1, 4, 4).masked_fill(~CAUSAL, float("-inf"))


@pytest.mark.parametrize("mask", [CAUSAL, ADDED], ids=["bool", "added"])
def test_a_causal_mask_is_left_away_and_the_answers_stay(seen: list[tuple[Any, Any]], mask: Any) -> None:
    q, k, v = torch.rand(3, 2, 1, 4, 8).unbind()
    expected = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    with _under(IS_CAUSAL):
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        again = functional.scaled_dot_product_attention(q, k, v, mask, 0.0)
    assert [(kept is None, causal) for kept, causal in seen] == [(False, False), (True, True), (True, True)]
    assert torch.allclose(found, expected, atol=1e-6)
    assert torch.equal(found, again)


def test_any_other_mask_is_passed_on(seen: list[tuple[Any, Any]]) -> None:
    padded = CAUSAL.clone()
    padded[:, 0] = False
    bias = ADDED + 0.5
    q = torch.rand(1, 1, 4, 8)
    with _under(IS_CAUSAL):
        for mask in (padded, bias, CAUSAL.T):
            functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        functional.scaled_dot_product_attention(q[:, :, -1:], q, q, attn_mask=CAUSAL[-1:])
    assert all(mask is not None and not causal for mask, causal in seen)


def test_a_mask_whose_values_change_is_looked_at_again(seen: list[tuple[Any, Any]]) -> None:
    mask, q = CAUSAL.clone(), torch.rand(1, 1, 4, 8)
    with _under(IS_CAUSAL):
        functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        mask[3, 0] = False
        functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert [causal for _, causal in seen] == [True, False]


def test_a_model_that_can_choose_its_attention_is_told_to_and_chooses_back() -> None:
    class Chooses(torch.nn.Linear):
        config = SimpleNamespace(_attn_implementation="eager")

        def set_attn_implementation(self, name: str) -> None:
            self.config._attn_implementation = name

    model = Chooses(2, 2)
    with SDPA.treat(_root(model)):
        assert model.config._attn_implementation == "sdpa"
    assert model.config._attn_implementation == "eager"


def test_subnormal_numbers_are_zero_as_long_as_they_are_flushed() -> None:
    small = torch.full((8,), 1e-39)
    with _under(FLUSH):
        assert not bool((small * 1).any())
    assert bool((small * 1).all())


def test_anomaly_mode_cannot_be_switched_on_and_what_was_on_comes_back() -> None:
    torch.set_anomaly_enabled(True)
    try:
        on = torch.autograd.detect_anomaly
        with _under(DEBUGGING_OFF), torch.autograd.set_detect_anomaly(True), on(check_nan=False):
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()
    finally:
        torch.set_anomaly_enabled(False)


def test_nobody_traces_python_while_debugging_is_off() -> None:
    before, settrace = sys.gettrace(), sys.settrace
    with _under(DEBUGGING_OFF):
        sys.settrace(lambda *_: None)
        assert sys.gettrace() is None
    assert (sys.gettrace(), sys.settrace) == (before, settrace)


def test_launches_no_longer_wait_on_a_gpu() -> None:
    assert DEBUGGING_OFF.environment(_machine(device="cuda"))["CUDA_LAUNCH_BLOCKING"] == "0"
    assert DEBUGGING_OFF.environment(_machine()) == {}


@pytest.mark.parametrize("fix", [AUTOCAST, WEIGHTS], ids=["autocast", "weights"])
def test_bfloat16_is_computed_in_and_float32_comes_back(fix: Fix) -> None:
    inside: list[Any] = []

    class Model(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            y = super().forward(x)
            inside.append(y.dtype)
            return {"y": y, "best": y.argmax(-1)}

    model, x = Model(16, 16), torch.rand(2, 16)
    assert fix.treat is not None
    with torch.no_grad(), fix.treat(_root(model, x)) as call:
        expected, found = model(x), call(x)
    assert inside[-1] == torch.bfloat16
    assert [value.dtype for value in found.values()] == [torch.float32, torch.int64]
    assert 0 < float((found["y"] - expected["y"]).norm() / expected["y"].norm()) < 2e-2


@pytest.mark.parametrize("fix", [AUTOCAST, WEIGHTS], ids=["autocast", "weights"])
def test_bfloat16_is_not_tried_on_a_cpu_without_units_for_it(fix: Fix) -> None:
    assert "no bfloat16 units" in str(fix.applies(_machine(cpu_flags=frozenset({"avx2"}))))
    assert fix.applies(_machine(cpu_flags=frozenset({"amx_bf16"}))) is None
    assert fix.applies(_machine(device="cuda")) is None


def test_autocast_on_the_cpu_does_nothing_while_it_is_off() -> None:
    x = torch.rand(2, 2)
    with _under(AUTOCAST_OFF), torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16


def test_linear_layers_of_a_copy_hold_8_bits_and_the_users_own_stay() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), torch.rand(2, 16)
    with torch.no_grad(), INT8.treat(_root(model, x)) as call:
        assert call.module[0].weight().dtype == torch.qint8
        assert 0 < float((call(x) - model(x)).norm() / model(x).norm()) < 0.1
    assert model[0].weight.dtype == torch.float32


def test_what_the_script_compiles_is_compiled_for_all_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda thing=None, **more: asked.append(more) or (lambda f: f))
    with _under(DYNAMIC):
        torch.compile(abs, dynamic=False, backend="eager")
        torch.compile(fullgraph=True)(abs)
        torch.nn.Linear(2, 2).compile()
    assert asked == [{"dynamic": True, "backend": "eager"}, {"dynamic": True, "fullgraph": True}, {"dynamic": True}]
