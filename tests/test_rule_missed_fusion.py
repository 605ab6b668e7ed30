"""ONX003: an ONNX graph still spells out what ONNX Runtime has a single operator for."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.measures.nodes import Node, missed_fusions, nodes_of
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.reading import read
from profiler_doctor.rules.missed_fusion import RULE
from tests import onnx_graphs
from tests.asking import ask
from tests.ort_profile import profile
from tests.watched import recorded

GELU = ["Div", "Erf", "Add", "Mul", "Mul"]


def found(operators: str) -> list[tuple[str, int]]:
    """What the operators in this order could become, and of how many nodes."""
    return [(one.becomes, len(one.places)) for one in missed_fusions([Node(op) for op in operators.split()])]


@pytest.mark.parametrize(
    ("operators", "becomes"),
    [
        ("ReduceMean Sub Pow ReduceMean Add Sqrt Div Mul Add", ("LayerNormalization", 9)),
        ("Pow ReduceMean Add Sqrt Div Mul Mul", ("SimplifiedLayerNormalization", 7)),
        ("Div Erf Add Mul Mul", ("Gelu", 5)),
        ("Pow Mul Add Mul Tanh Add Mul Mul", ("FastGelu", 8)),
        ("MatMul Div Add Softmax MatMul", ("Attention", 5)),
        ("FusedMatMul Softmax MatMul", ("Attention", 3)),  # the scale and the transpose of the keys are in the first
        ("Slice Slice Neg Concat Mul Add", ("RotaryEmbedding", 6)),
        ("Slice Neg Slice Concat Mul Add", ("RotaryEmbedding", 6)),
        ("Split Neg Concat Mul Mul Add", ("RotaryEmbedding", 6)),  # as ONNX Runtime orders it: one product is of x
    ],
)
def test_each_chain_is_known_by_its_operators(operators: str, becomes: tuple[str, int]) -> None:
    assert found(f"Conv {operators} Relu") == [becomes]


@pytest.mark.parametrize(
    "operators",
    [
        "LayerNormalization MatMul Gelu MatMul",
        "MatMul Add Relu MatMul Add",
        "Cast Cast",
        "ReduceMean Sub Pow ReduceMean Add Sqrt Div",
        "MatMul Softmax",
    ],
    ids=["fused", "plain layers", "casts that may be of two tensors", "a norm without scale", "a classifier's end"],
)
def test_other_sequences_are_nothing_to_fuse(operators: str) -> None:
    assert found(operators) == []


def test_where_edges_are_known_the_chain_must_be_one() -> None:
    linked = [Node("Cast", "a", ("x",), ("y",)), Node("Cast", "b", ("y",), ("z",))]
    apart = [Node("Cast", "a", ("x",), ("y",)), Node("Cast", "b", ("u",), ("z",))]

    assert [one.becomes for one in missed_fusions(linked)] == ["one Cast"]
    assert missed_fusions(apart) == []


def test_all_nodes_of_a_chain_but_the_longest_are_at_stake(tmp_path: Path) -> None:
    times = (10, 20, 10, 10, 10)
    nodes = [(f"n{place}", op, us, "CPU") for place, (op, us) in enumerate(zip(GELU, times, strict=True))]
    trace = profile(tmp_path, [("mm", "MatMul", 130, "CPU"), *nodes])

    [finding] = examine(trace, Found((RULE,))).outcomes[0].findings

    assert finding.message == "1 times a run the graph spells out what Gelu could do: Div Erf Add Mul Mul."
    assert finding.stake.share == pytest.approx(0.20)  # 40 of 200 us


def test_of_an_attention_the_products_stay(tmp_path: Path) -> None:
    nodes = [
        ("q", "MatMul", 20, "CPU"),
        ("d", "Div", 30, "CPU"),
        ("s", "Softmax", 40, "CPU"),
        ("v", "MatMul", 10, "CPU"),
    ]

    [finding] = examine(profile(tmp_path, [*nodes, ("r", "Relu", 90, "CPU")]), Found((RULE,))).outcomes[0].findings

    assert finding.stake.share == pytest.approx(0.35)  # 70 of 200 us


def test_a_graph_beside_the_profile_says_what_is_linked(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    made = [("a", "Transpose", "x", "y"), ("b", "Transpose", "y", "z"), ("c", "Transpose", "x", "w")]
    nodes = [helper.make_node(op, [reads], [writes], name=name) for name, op, reads, writes in made]
    ends = [helper.make_tensor_value_info(name, kinds.FLOAT, [2, 2]) for name in ("x", "z", "w")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), str(tmp_path / "m.onnx"))

    [seen] = ask(RULE, profile(tmp_path, [(name, op, 50, "CPU") for name, op, _, _ in made]))

    assert seen.evidence["nodes"] == ["a", "b"]


def test_a_file_that_is_no_model_has_no_nodes(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")

    assert nodes_of(tmp_path / "m.onnx") == []
    assert ask(RULE, profile(tmp_path, [("a", "Transpose", 50, "CPU"), ("b", "Transpose", 50, "CPU")])) == []


def test_a_real_profile_of_fused_operators_misses_nothing(shared: Path) -> None:
    assert ask(RULE, read(shared / "traces" / "ort_olive_profile.json.gz")) == []


@pytest.mark.slow
@pytest.mark.parametrize("halves", [True, False], ids=["spelled out", "only multiplied"])
def test_a_rotation_that_the_runtime_leaves_spelled_out_is_found_in_a_real_run(tmp_path: Path, halves: bool) -> None:
    pytest.importorskip("onnxruntime")
    onnx_graphs.rotated(tmp_path / "net.onnx", halves)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        captured = recorded("net.onnx", steps=4)
    assert captured.trace_file is not None

    found = ask(RULE, read(captured.trace_file).with_capture(captured.facts, None))

    assert [one.evidence["becomes"] for one in found] == (["RotaryEmbedding"] if halves else [])
