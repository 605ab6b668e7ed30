"""A loop over a recurrent cell becomes one call of the layer with the same answers; look-alikes are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from profiler_doctor.analyzer.kinds import Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes._recurrent_graph import LAYERS  # noqa: E402
from profiler_doctor.fixes.recurrent_layer import FIX  # noqa: E402

STEPS, BATCH, FEATURES, HIDDEN = 6, 3, 4, 5
Form = Callable[..., Any]


class Module(nn.Module):
    """A root that is one function of a sequence, with cells of its own."""

    def __init__(self, form: Form, cell: Any, second: Any = None) -> None:
        super().__init__()
        self.form = form
        self.cell = cell
        self.second = second

    def forward(self, x: Any) -> Any:
        return self.form(self, x)


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _lstm(inputs: int = FEATURES) -> Any:
    return nn.LSTMCell(inputs, HIDDEN)


def _gru(inputs: int = FEATURES, **more: Any) -> Any:
    return nn.GRUCell(inputs, HIDDEN, **more)


@contextmanager
def _treated(module: Any, x: Any) -> Iterator[tuple[Any, list[str]]]:
    """The treated call, and which of torch's ops for cells and layers it then calls, a name each time."""
    called: list[str] = []
    with FIX.treat(Root(module, (x,), {}, module._call_impl)) as call:  # type: ignore[misc]

        def seen(*given: Any) -> Any:
            call(*given)  # compiled before anybody looks
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recording:
                outputs = call(*given)
            names = [event.name.removeprefix("aten::") for event in recording.events()]
            called[:] = [name for name in names if name in LAYERS.values() or name in LAYERS]
            return outputs

        yield seen, called


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    return bool(torch.allclose(one, other, rtol=1e-5, atol=1e-6)) and one.shape == other.shape


def _stacked(s: Module, x: Any) -> Any:
    h = c = torch.zeros(x.shape[1], HIDDEN)
    outputs = []
    for t in range(x.shape[0]):
        h, c = s.cell(x[t], (h, c))
        outputs.append(h)
    return torch.stack(outputs), h, c


def _batch_first(s: Module, x: Any) -> Any:
    h, outputs = None, []
    for t in range(x.shape[1]):
        h = s.cell(x[:, t], h)
        outputs.append(h)
    return torch.stack(outputs, dim=1)


def _written(s: Module, x: Any) -> Any:
    h, outputs = torch.zeros(BATCH, HIDDEN), torch.zeros(len(x), BATCH, HIDDEN)
    for t, row in enumerate(x):
        h = s.cell(row, h)
        outputs[t] = h
    return outputs


def _last(s: Module, x: Any) -> Any:
    h = torch.ones(BATCH, HIDDEN)
    for row in x.unbind(0):
        h = s.cell(row, h)
    return h


def _two_layers(s: Module, x: Any) -> Any:
    first = second = torch.zeros(BATCH, HIDDEN)
    outputs = []
    for row in x:
        first = s.cell(row, first)
        second = s.second(first, second)
        outputs.append(second * 2)
    return torch.stack(outputs), first


def _both_ways(s: Module, x: Any) -> Any:
    there = back = torch.zeros(BATCH, HIDDEN)
    ahead, behind = [], []
    for t in range(len(x)):
        there = s.cell(x[t], there)
        back = s.second(x[len(x) - 1 - t], back)
        ahead.append(there)
        behind.insert(0, back)
    return torch.cat([torch.stack(ahead), torch.stack(behind)], -1)


def _embedded(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for t in range(len(x) - 1):
        h = s.cell(torch.tanh(s.second(x[t])), h)
    return h


def _in_a_list(s: Module, x: Any) -> Any:
    h, outputs = torch.zeros(BATCH, HIDDEN), []
    for row in x:
        h = s.cell(row, h)
        outputs.append(h)
    return outputs, torch.stack(outputs)


ONES = (STEPS, BATCH, FEATURES)
FORMS: dict[str, tuple[Form, Any, Any, tuple[int, ...], list[str]]] = {
    "LSTM, stacked": (_stacked, _lstm, None, ONES, ["lstm"]),
    "GRU, batch first": (_batch_first, _gru, None, (BATCH, STEPS, FEATURES), ["gru"]),
    "as many samples as steps": (_batch_first, _gru, None, (STEPS, STEPS, FEATURES), ["gru"]),
    "written into a tensor": (_written, _gru, None, ONES, ["gru"]),
    "without biases, the last state": (_last, lambda: _gru(bias=False), None, ONES, ["gru"]),
    "tanh": (_last, lambda: nn.RNNCell(FEATURES, HIDDEN), None, ONES, ["rnn_tanh"]),
    "relu": (_last, lambda: nn.RNNCell(FEATURES, HIDDEN, nonlinearity="relu"), None, ONES, ["rnn_relu"]),
    "two layers": (_two_layers, _gru, lambda: _gru(HIDDEN), ONES, ["gru", "gru"]),
    "both ways": (_both_ways, _gru, _gru, ONES, ["gru", "gru"]),
    "inputs made in the loop": (_embedded, lambda: _gru(HIDDEN), lambda: nn.Linear(FEATURES, HIDDEN), ONES, ["gru"]),
    "outputs given back one by one": (_in_a_list, _gru, None, ONES, ["gru"]),
}


@pytest.mark.parametrize(("form", "cell", "second", "shape", "layers"), FORMS.values(), ids=FORMS.keys())
def test_a_loop_over_a_cell_becomes_one_call_with_the_same_answers_and_gradients(
    form: Form, cell: Any, second: Any, shape: tuple[int, ...], layers: list[str]
) -> None:
    module, x = Module(form, cell(), second() if second else None), torch.randn(shape, requires_grad=True)
    expected = module(x)
    with _treated(module, x) as (call, called):
        outputs = call(x)
        assert called == layers
    assert _close(outputs, expected)
    ways = [
        torch.autograd.grad(sum(one.pow(2).sum() for one in torch.utils._pytree.tree_leaves(given)), [x, *parameters])
        for given, parameters in ((outputs, [*module.parameters()]), (expected, [*module.parameters()]))
    ]
    assert _close(*ways)


def test_what_it_did_is_told() -> None:
    module, x = Module(_both_ways, _gru(), _gru()), torch.randn(ONES)
    with FIX.treat(Root(module, (x,), {}, module._call_impl)) as call:  # type: ignore[misc]
        call(x)
        assert call.note == "12 calls of recurrent cells became 2 calls of whole layers"


def test_a_change_of_the_stack_does_not_reach_the_last_state() -> None:
    module, x = Module(_stacked, _lstm()), torch.randn(ONES)
    with torch.no_grad(), _treated(module, x) as (call, _):
        outputs, hidden, _ = call(x)
        outputs.fill_(7.0)
        assert _close(hidden, module(x)[1])


def test_a_stack_into_a_given_tensor_is_made_there() -> None:
    def form(s: Module, x: Any) -> Any:
        h, outputs, whole = torch.zeros(BATCH, HIDDEN), [], torch.empty(STEPS, BATCH, HIDDEN)
        for row in x:
            h = s.cell(row, h)
            outputs.append(h)
        torch.stack(outputs, out=whole)
        return whole

    module, x = Module(form, _gru()), torch.randn(ONES)
    with torch.no_grad(), _treated(module, x) as (call, called):
        assert _close(call(x), module(x))
        assert called == ["gru"]


def test_a_stack_that_is_made_without_gradients_has_none() -> None:
    def form(s: Module, x: Any) -> Any:
        h, outputs = torch.zeros(BATCH, HIDDEN), []
        for row in x:
            h = s.cell(row, h)
            outputs.append(h)
        with torch.no_grad():
            target = torch.stack(outputs)
        return h, target

    module, x = Module(form, _gru()), torch.randn(ONES)
    with _treated(module, x) as (call, called):
        last, target = call(x)
        assert called == ["gru"]
    assert last.requires_grad
    assert not target.requires_grad


def test_an_autocast_around_the_call_leaves_the_loop_alone() -> None:
    module, x = Module(_stacked, _lstm()), torch.randn(ONES)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(Unsuitable, match="no loop"), _treated(module, x):
        pass


def test_a_change_of_the_weights_is_followed() -> None:
    module, x = Module(_stacked, _lstm()), torch.randn(ONES)
    with torch.no_grad(), _treated(module, x) as (call, _):
        call(x)
        module.cell.weight_hh.mul_(3.0)
        assert _close(call(x), module(x))


def _feedback(s: Module, x: Any) -> Any:
    h = y = torch.zeros(BATCH, HIDDEN)
    for t in range(len(x)):
        h = s.cell(torch.cat([x[t], y], -1), h)
        y = s.second(h)
    return y


def _inner_states(s: Module, x: Any) -> Any:
    h = c = torch.zeros(BATCH, HIDDEN)
    kept = []
    for row in x:
        h, c = s.cell(row, (h, c))
        kept.append(c)
    return torch.stack(kept)


def _state_changed(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for row in x:
        h = s.cell(row, h)
        h[:, 0] = 0.0
    return h


def _state_scaled(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for row in x:
        h = s.cell(row, h * 0.9)
    return h


def _inputs_changed(s: Module, x: Any) -> Any:
    x = x.clone()
    h = torch.zeros(BATCH, HIDDEN)
    for t in range(len(x)):
        h = s.cell(x[t], h)
        x.mul_(0.5)
    return h


def _answers_read_back(s: Module, x: Any) -> Any:
    h, kept = torch.zeros(BATCH, HIDDEN), torch.zeros(len(x) + 1, BATCH, HIDDEN)
    for t in range(len(x)):
        h = s.cell(kept[t], h)
        kept[t + 1] = h
    return kept


def _chance(s: Module, x: Any) -> Any:
    h, outputs = torch.zeros(BATCH, HIDDEN), []
    for row in x:
        h = s.cell(F.dropout(row, 0.5), h)
        outputs.append(F.dropout(h, 0.5))
    return torch.stack(outputs)


def _each_anew(s: Module, x: Any) -> Any:
    return torch.stack([s.cell(row, torch.zeros(BATCH, HIDDEN)) for row in x])


def _two_branches(s: Module, x: Any) -> Any:
    h, others = torch.zeros(BATCH, HIDDEN), []
    for t in range(len(x) - 1):
        others.append(s.cell(x[t + 1], h))
        h = s.cell(x[t], h)
    return h, torch.stack(others)


def _in_turns(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for t, row in enumerate(x):
        h = (s.cell if t % 2 else s.second)(row, h)
    return h


def _partly_without_gradients(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for t, row in enumerate(x):
        with torch.set_grad_enabled(t > 2):
            h = s.cell(row, h)
    return h


def _cast(s: Module, x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return _last(s, x)


def _output_changed_later(s: Module, x: Any) -> Any:
    h, outputs = torch.zeros(BATCH, HIDDEN), []
    for row in x:
        h = s.cell(row, h)
        outputs.append(h)
    outputs[0].add_(1.0)
    return torch.stack(outputs)


def _state_changed_by_an_activation(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for row in x:
        h = s.cell(row, h)
        F.leaky_relu(h, 0.1, True)
    return h


def _inputs_changed_through_a_view(s: Module, x: Any) -> Any:
    x = x.clone()
    same, h = x.contiguous(), torch.zeros(BATCH, HIDDEN)
    for t in range(len(x)):
        h = s.cell(x[t], h)
        same.mul_(0.5)
    return h


def _statistics_shared(s: Module, x: Any) -> Any:
    h, outputs = torch.zeros(BATCH, FEATURES), []
    for row in x:
        h = s.cell(s.second(row), h)
        outputs.append(s.second(h))
    return torch.stack(outputs)


def _own_cell(s: Module, x: Any) -> Any:
    h = torch.zeros(BATCH, HIDDEN)
    for row in x:
        h = torch.tanh(s.second(row) + s.cell(h))
    return h


LEFT_ALONE: dict[str, tuple[Form, Any, Any, tuple[int, ...]]] = {
    "feedback": (_feedback, lambda: _gru(FEATURES + HIDDEN), lambda: nn.Linear(HIDDEN, HIDDEN), ONES),
    "inner states kept": (_inner_states, _lstm, None, ONES),
    "state changed": (_state_changed, _gru, None, ONES),
    "state scaled": (_state_scaled, _gru, None, ONES),
    "inputs changed": (_inputs_changed, _gru, None, ONES),
    "answers read back": (_answers_read_back, lambda: _gru(HIDDEN), None, ONES),
    "chance": (_chance, _gru, None, ONES),
    "each time step by itself": (_each_anew, _gru, None, ONES),
    "two branches": (_two_branches, _gru, None, ONES),
    "two cells in turns": (_in_turns, _gru, _gru, ONES),
    "partly without gradients": (_partly_without_gradients, _gru, None, ONES),
    "state changed by an activation": (_state_changed_by_an_activation, _gru, None, ONES),
    "inputs changed through a view": (_inputs_changed_through_a_view, _gru, None, ONES),
    "statistics shared": (
        _statistics_shared, lambda: nn.GRUCell(FEATURES, FEATURES), lambda: nn.BatchNorm1d(FEATURES), ONES,
    ),
    "autocast": (_cast, _gru, None, ONES),
    "output changed later": (_output_changed_later, _gru, None, ONES),
    "three turns": (_last, _gru, None, (3, BATCH, FEATURES)),
    "a cell of the user's own": (
        _own_cell, lambda: nn.Linear(HIDDEN, HIDDEN), lambda: nn.Linear(FEATURES, HIDDEN), ONES,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("form", "cell", "second", "shape"), LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_a_loop_that_the_layer_does_not_do_is_left_alone(
    form: Form, cell: Any, second: Any, shape: tuple[int, ...]
) -> None:
    module, x = Module(form, cell(), second() if second else None), torch.randn(shape)
    module(x)
    with pytest.raises(Unsuitable, match="no loop over a cell"), _treated(module, x):
        pass
