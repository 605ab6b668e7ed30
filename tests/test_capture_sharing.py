"""Which products were given the very same tensor: told of a real recording."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture.child.sharing import shared_inputs

torch = pytest.importorskip("torch")


def test_products_of_one_tensor_are_told_from_those_of_another() -> None:
    layers = [torch.nn.Linear(16, 16) for _ in range(3)]
    x, y = torch.randn(4, 16), torch.randn(4, 16)

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recording:
        for layer in layers:
            layer(x)
        layers[0](layers[1](y))  # a chain, whose second product is given the first one's result

    [group] = shared_inputs(recording)
    linears = sorted(
        event.time_range.start for event in recording.events() if event.name == "aten::linear"
    )  # µs since the recording began
    assert len(group) == 3
    assert len(linears) == 5
    assert [round((start - group[0]) / 1000) for start in group] == pytest.approx(
        [start - linears[0] for start in linears[:3]], abs=2
    )


def test_a_profile_without_such_a_tree_tells_nothing() -> None:
    assert shared_inputs(object()) == ()
