"""Fixes that hand the whole call to another engine: what they keep of the call, and whom they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child.users_function import users_function  # noqa: E402
from profiler_doctor.analyzer.kinds import Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes._engine import MOST_ENGINES, handed_over  # noqa: E402
from profiler_doctor.fixes.torchscript import FIX as TRACE  # noqa: E402
from profiler_doctor.fixes.torchscript_script import FIX as SCRIPT  # noqa: E402


class Named(torch.nn.Module):
    """Takes names, gives a structure, and counts in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.eval()

    def forward(self, x: Any, *, scale: float = 1.0, masks: Any = ()) -> Any:
        self.calls += 1
        y = self.linear(x) * scale
        for mask in masks:
            y = y * mask
        return {"logits": y, "more": (y.sum(), "words")}


def _root(module: Any, *args: Any, **kwargs: Any) -> Root:
    return Root(module, args, kwargs, module._call_impl)


def _eager(built: list[Any]) -> Callable[..., Any]:
    """An engine that is the model itself; notes for which shapes it was built."""

    def build(module: Any, tensors: Any) -> Any:
        built.append([tuple(tensor.shape) for tensor in tensors])
        module(*tensors)
        return module

    return build


def test_names_numbers_and_the_structure_of_the_output_are_kept() -> None:
    model, x, mask = Named(), torch.rand(2, 3), torch.tensor([1.0, 0.0, 1.0])
    expected = model(x, scale=2.0, masks=[mask, mask])
    with torch.no_grad(), TRACE.treat(_root(model, x, scale=2.0, masks=[mask, mask])) as call:
        found = call(x, scale=2.0, masks=[mask, mask])
    assert list(found) == ["logits", "more"]
    assert torch.allclose(found["logits"], expected["logits"], atol=1e-6)
    assert found["more"][1] == "words"


def test_building_an_engine_leaves_the_users_buffers_alone() -> None:
    model = Named()
    with torch.no_grad(), TRACE.treat(_root(model, torch.rand(2, 3))):
        assert model.calls == 0


def test_each_shape_and_each_number_gets_an_engine_of_its_own() -> None:
    model, built = Named(), list[Any]()
    call = handed_over(_root(model, torch.rand(2, 3)), _eager(built))
    for rows, scale in ((2, 1.0), (5, 1.0), (2, 1.0), (5, 3.0)):
        found = call(torch.ones(rows, 3), scale=scale)
        assert torch.allclose(found["logits"], model(torch.ones(rows, 3), scale=scale)["logits"])
    # the first was built for a call without a scale
    assert built == [[(2, 3)], [(2, 3)], [(5, 3)], [(5, 3)]]


def test_too_many_shapes_are_left_to_the_model_itself() -> None:
    model, built = Named(), list[Any]()
    call = handed_over(_root(model, torch.rand(1, 3)), _eager(built))
    for rows in range(1, MOST_ENGINES + 4):
        assert call(torch.ones(rows, 3))["logits"].shape == (rows, 3)
    assert len(built) == MOST_ENGINES
    assert model.calls == 3


def test_a_call_with_an_object_in_it_suits_no_engine() -> None:
    with pytest.raises(Unsuitable, match="the model takes a object"), TRACE.treat(_root(Named(), object())):
        pass


def test_an_engine_is_built_from_what_an_earlier_fix_made_of_the_call() -> None:
    model = torch.nn.Linear(3, 3).eval()
    doubled = Root(model, (torch.ones(1, 3),), {}, lambda x: model(x) * 2)
    with torch.no_grad(), TRACE.treat(doubled) as call:
        assert torch.allclose(call(torch.ones(1, 3)), model(torch.ones(1, 3)) * 2)


def test_a_model_of_plain_layers_can_be_scripted_and_one_of_rich_python_cannot() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()).eval(), torch.rand(2, 3)
    with torch.no_grad(), SCRIPT.treat(_root(model, x)) as call:
        assert torch.equal(call(x), model(x))
        assert torch.equal(call(input=x), model(x))
    with pytest.raises(Unsuitable, match="TorchScript cannot translate it"), SCRIPT.treat(_root(Named(), x)):
        pass


WEIGHT = torch.ones(3)


def _reading(function: Any) -> Root:
    return _root(users_function(torch, function))


def test_tensors_that_a_function_reads_are_inputs_of_its_trace_whatever_becomes_of_them() -> None:
    given, cell = {"weight": torch.tensor([1.0, 2.0, 3.0])}, torch.nn.LSTMCell(3, 3)

    def looping() -> Any:
        hidden = state = torch.zeros(3, 3)
        for _ in range(4):
            hidden, state = cell(given["weight"].expand(3, 3), (hidden, state))
        return hidden, {"more": hidden.sum() * weight.sum()}

    weight = torch.tensor([0.5])
    with torch.no_grad(), TRACE.treat(_reading(looping)) as call:
        for change in (lambda: None, lambda: given["weight"].mul_(-2), lambda: given.update(weight=torch.rand(3))):
            change()
            weight = weight + 1
            (one, more), (other, expected) = call(), looping()
            assert torch.allclose(one, other)
            assert torch.allclose(more["more"], expected["more"])


def test_an_engine_that_would_hold_what_a_function_reads_is_not_built() -> None:
    with pytest.raises(Unsuitable, match="reads tensors beside its arguments"):
        handed_over(_reading(lambda: WEIGHT * 2), _eager([]))


def test_one_tensor_by_two_names_is_left_alone() -> None:
    other = WEIGHT

    with pytest.raises(Unsuitable, match="by several names"), TRACE.treat(_reading(lambda: WEIGHT * other)):
        pass


def test_a_number_that_a_function_reads_has_an_engine_of_its_own_when_it_changes() -> None:
    factor = 2.0

    def scaled(x: Any) -> Any:
        return x * factor

    with torch.no_grad(), TRACE.treat(_root(users_function(torch, scaled), torch.ones(3))) as call:
        factor = 3.0
        assert torch.equal(call(torch.ones(3)), torch.full((3,), 3.0))
