"""OPT004: a forward pass keeps all it would need for a backward pass that never comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.autograd_in_inference import RULE
from tests.asking import ask
from tests.observed import observed, root
from tests.trace_builder import TraceBuilder

KEPT = {"grad_enabled": True, "output_requires_grad": True}


def forward_steps(folder: Path, nodes: int = 6, steps: int = 4, extra: str = "") -> Trace:
    """Steps whose ops carry the number of the next autograd node, which goes up with each of them."""
    built, number = TraceBuilder(), 100
    for step in range(steps):
        built.step(step, step * 1_000_000, 1_000_000)
        for place in range(nodes + 1):
            built.op("aten::linear", step * 1_000_000 + place * 20_000, 10_000, **{"Sequence number": number})
            number += place < nodes
        if extra:
            built.op(extra, step * 1_000_000 + 900_000, 10_000)
    return built.trace(folder)


def test_a_module_that_keeps_a_graph_nobody_uses_is_found(tmp_path: Path) -> None:
    trace = observed(forward_steps(tmp_path), roots=(root("ResNet", calls=42, **KEPT),))

    [seen] = ask(RULE, trace)

    assert "ResNet ran 42 times with grad mode on" in seen.message
    assert seen.evidence["nodes_per_step"] == 6
    assert seen.where.op == "aten::linear"
    assert seen.edit is None
    assert len(seen.intervals_ns) == 3


def test_the_place_is_the_outermost_op_that_makes_the_first_node(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(3):
        at, number = step * 1_000_000, {"Sequence number": 10 * step}
        built.step(step, at, 1_000_000)
        built.op("aten::conv2d", at, 100_000, **number).op("aten::convolution", at + 10_000, 80_000, **number)
        for place in range(1, 5):
            args = {"Sequence number": 10 * step + place}
            built.op("aten::batch_norm", at + place * 150_000, 100_000, **args)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.where.op == "aten::conv2d"


@pytest.mark.parametrize(
    "facts",
    [
        {"roots": (root(grad_enabled=False, output_requires_grad=False),)},
        {"roots": (root(grad_enabled=True, output_requires_grad=False),)},
        {"roots": (root(grad_enabled=False, output_requires_grad=True),)},
        {"roots": (root(**KEPT),), "backward_calls": 1},
        {"roots": (root(**KEPT),), "optimizer_steps": 1},
        {"roots": ()},
    ],
    ids=["no_grad", "frozen weights", "grad off in some calls", "one backward", "an optimizer", "no module"],
)
def test_a_doubt_is_silence(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert ask(RULE, observed(forward_steps(tmp_path), **facts)) == []


def test_a_backward_pass_in_the_trace_is_believed_over_the_facts(tmp_path: Path) -> None:
    trace = forward_steps(tmp_path, extra="autograd::engine::evaluate_function: AddmmBackward0")

    assert ask(RULE, observed(trace, roots=(root(**KEPT),))) == []


def test_a_foreign_trace_tells_it_by_the_numbers_of_its_nodes(tmp_path: Path) -> None:
    [seen] = ask(RULE, forward_steps(tmp_path, nodes=6))

    assert seen.evidence == {"nodes_per_step": 6, "steps": 3}


def test_grad_mode_without_a_single_node_is_no_graph(tmp_path: Path) -> None:
    assert ask(RULE, forward_steps(tmp_path, nodes=0)) == []


@pytest.mark.parametrize(("nodes", "found"), [(3, False), (4, True)])
def test_a_few_nodes_are_no_model(tmp_path: Path, nodes: int, found: bool) -> None:
    assert bool(ask(RULE, forward_steps(tmp_path, nodes=nodes))) is found


@pytest.mark.parametrize(("steps", "found"), [(1, False), (2, True)])
def test_one_step_alone_may_be_cut_before_its_backward_pass(tmp_path: Path, steps: int, found: bool) -> None:
    assert bool(ask(RULE, forward_steps(tmp_path, steps=steps))) is found


@pytest.mark.parametrize("backward", ["AddmmBackward0", "torch::autograd::AccumulateGrad"])
def test_a_foreign_trace_with_any_gradient_is_training(tmp_path: Path, backward: str) -> None:
    trace = forward_steps(tmp_path, extra=f"autograd::engine::evaluate_function: {backward}")

    assert ask(RULE, trace) == []


def test_old_traces_name_the_backward_pass_by_itself(tmp_path: Path) -> None:
    assert ask(RULE, forward_steps(tmp_path, extra="AddmmBackward")) == []
