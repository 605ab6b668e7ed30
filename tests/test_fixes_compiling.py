"""Fixes that compile: what torch is asked for, which blocks are compiled, and where a graph breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child.users_function import users_function  # noqa: E402
from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes._compiling import compiled  # noqa: E402
from profiler_doctor.fixes.compile_dynamic import FIX as DYNAMIC  # noqa: E402
from profiler_doctor.fixes.compile_fullgraph import FIX as FULLGRAPH  # noqa: E402
from profiler_doctor.fixes.compile_max_autotune import FIX as AUTOTUNE  # noqa: E402
from profiler_doctor.fixes.compile_reduce_overhead import FIX as OVERHEAD  # noqa: E402
from profiler_doctor.fixes.compile_regional import FIX as REGIONAL  # noqa: E402
from profiler_doctor.fixes.compile_regional import repeated  # noqa: E402
from profiler_doctor.fixes.mark_dynamic import FIX as MARK  # noqa: E402

CPU = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=False)


class Block(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x: Any) -> Any:
        return self.linear(x).relu()


class Breaks(Block):
    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        return y if y.sum() > 0 else -y


def _root(module: Any, *args: Any) -> Root:
    return Root(module, args, {}, module._call_impl)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = []
    monkeypatch.setattr(torch, "compile", lambda thing, **more: options.append(more) or thing)
    return options


@pytest.mark.parametrize(
    ("fix", "options"),
    [(AUTOTUNE, {"mode": "max-autotune"}), (OVERHEAD, {"mode": "reduce-overhead"}), (DYNAMIC, {"dynamic": True})],
    ids=lambda value: getattr(value, "name", ""),
)
def test_torch_is_asked_for_the_setting_that_the_fix_is_named_after(
    asked: list[dict[str, Any]], fix: Fix, options: dict[str, Any]
) -> None:
    assert fix.treat is not None
    with fix.treat(_root(Block(2), torch.ones(1, 2))):
        pass
    assert asked == [options]


def test_cuda_graphs_need_a_gpu() -> None:
    assert OVERHEAD.applies(CPU) == "the work does not run on a CUDA GPU"


def test_the_first_dimension_of_each_batch_is_marked_and_a_single_sample_is_not(asked: list[dict[str, Any]]) -> None:
    batch, single = torch.ones(4, 2), torch.ones(1, 2)
    with MARK.treat(_root(Block(2), batch)) as call:
        call(batch)
        call(single)
    assert batch._dynamo_dynamic_indices == {0}
    assert not hasattr(single, "_dynamo_dynamic_indices")


def test_a_model_that_the_script_compiles_has_its_batches_marked_and_is_not_compiled_once_more(
    asked: list[dict[str, Any]],
) -> None:
    batch, wraps, in_place = torch.ones(4, 2), Block(2), Block(2)
    wraps._orig_mod = Block(2)
    in_place._compiled_call_impl = in_place._call_impl
    for model in (wraps, in_place):
        with MARK.treat(_root(model, batch)) as call:
            call(batch)
    assert asked == []
    assert batch._dynamo_dynamic_indices == {0}
    assert MARK.applies(replace(CPU, compiled=True)) is None


def test_of_several_lists_of_like_blocks_the_one_with_most_weights_is_compiled() -> None:
    small, large = [Block(2) for _ in range(3)], [Block(8) for _ in range(2)]
    model = torch.nn.Sequential(torch.nn.Sequential(*small), torch.nn.Sequential(*large, torch.nn.Linear(8, 8)))
    assert repeated(model) == large


def test_each_block_is_compiled_in_its_place_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda call, **more: compiled.append(call) or call)
    blocks = [Block(2), Block(2)]
    model = torch.nn.Sequential(*blocks)
    before = [set(vars(block)) for block in blocks]
    with REGIONAL.treat(_root(model, torch.ones(1, 2))) as call:
        assert call == model._call_impl
        assert compiled == [block._call_impl for block in blocks]
    assert [set(vars(block)) for block in blocks] == before


def test_a_model_that_repeats_nothing_has_no_region_to_compile() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    with pytest.raises(Unsuitable, match="two layers of one class"), REGIONAL.treat(_root(model, torch.ones(1, 2))):
        pass


def test_a_graph_break_is_told_with_its_reason_and_place() -> None:
    torch._dynamo.reset()
    with (
        torch.no_grad(),
        pytest.raises(Unsuitable, match=r"the graph breaks: .*branching"),
        FULLGRAPH.treat(_root(Breaks(2), torch.ones(1, 2))),
    ):
        pass


def test_a_function_that_is_given_no_tensor_is_compiled_and_not_what_stands_for_it() -> None:
    graphs: list[Any] = []
    weight = 2 * torch.ones(3)

    def reads() -> Any:
        return weight.sin()

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with compiled(_root(users_function(torch, reads)), backend=backend) as call:  # type: ignore[arg-type]
        assert torch.equal(call(), reads())
    assert len(graphs) == 1
