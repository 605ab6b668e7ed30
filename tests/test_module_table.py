"""Time by nn.Module, and the way from a kernel back to the line that asked for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from profiler_doctor.analyzer.measures.kernel_sources import kernel_sources
from profiler_doctor.analyzer.measures.kernels import kernel_table
from profiler_doctor.analyzer.measures.module_table import module_table
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.optable import op_table
from profiler_doctor.analyzer.measures.totals import tables
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder


def network(folder: Path) -> Trace:
    """Net calls two layers; each runs one op that launches one kernel, and Net runs one of its own."""
    builder = TraceBuilder().frame("model.py(3): <module>", 0, 400)
    builder.frame("nn.Module: Net_0", 10, 200).frame("model.py(12): forward", 11, 198)
    builder.frame("nn.Module: Linear_0", 20, 50).op("aten::linear", 30, 30).op("aten::addmm", 40, 10)
    builder.launch("gemm", at=(45, 2), on_gpu=(300, 40))
    builder.frame("nn.Module: Linear_1", 80, 50).op("aten::linear", 90, 20)
    builder.launch("gemm", at=(95, 2), on_gpu=(350, 30))
    builder.op("aten::relu", 150, 10, **{"Sequence number": 5}).launch("relu", at=(155, 2), on_gpu=(390, 5))
    return builder.op("aten::rand", 250, 10).launch("rand", at=(255, 2), on_gpu=(400, 7)).trace(folder)


def test_a_modules_time_holds_that_of_the_modules_inside_it(tmp_path: Path) -> None:
    table = module_table(network(tmp_path)).set_index("module")

    assert table.index.tolist() == ["Net_0", "Net_0/Linear_0", "Net_0/Linear_1"]
    assert table["depth"].tolist() == [0, 1, 1]
    assert table["ops"].tolist() == [1, 2, 1]
    assert table["self_ns"].tolist() == [10, 30, 20]
    assert table["time_ns"].tolist() == [60, 30, 20]
    assert table["gpu_self_ns"].tolist() == [5, 40, 30]
    assert table["gpu_ns"].tolist() == [75, 40, 30]


def test_a_module_that_only_calls_others_has_a_row(tmp_path: Path) -> None:
    builder = TraceBuilder().frame("nn.Module: Outer_0", 0, 100).frame("nn.Module: Inner_0", 10, 50)

    table = module_table(builder.op("aten::mm", 20, 10).trace(tmp_path))

    assert table[["module", "ops", "self_ns", "time_ns"]].to_numpy().tolist() == [
        ["Outer_0", 0, 0, 10],
        ["Outer_0/Inner_0", 1, 10, 10],
    ]


def test_the_backward_pass_counts_for_the_module_of_its_forward_op(tmp_path: Path) -> None:
    builder = TraceBuilder().frame("nn.Module: Net_0", 0, 100).op("aten::relu", 20, 10, **{"Sequence number": 5})
    builder.op("autograd::engine::evaluate_function: ReluBackward0", 200, 60, **{"Sequence number": 5})
    builder.op("aten::threshold_backward", 210, 30).launch("back", at=(215, 2), on_gpu=(300, 9))

    row = module_table(builder.trace(tmp_path)).iloc[0]

    assert (row["ops"], row["self_ns"], row["gpu_ns"]) == (3, 10 + 30 + 30, 9)


def test_without_stacks_there_are_no_modules(tmp_path: Path) -> None:
    assert len(module_table(TraceBuilder().op("aten::mm", 0, 10).trace(tmp_path))) == 0


def test_a_kernel_leads_back_to_op_module_and_line(tmp_path: Path) -> None:
    table = kernel_sources(network(tmp_path))

    assert table.to_numpy().tolist() == [
        ["gemm", "aten::addmm", "Net_0/Linear_0", "model.py", 12, 1, 40],
        ["gemm", "aten::linear", "Net_0/Linear_1", "model.py", 12, 1, 30],
        ["rand", "aten::rand", "", "model.py", 3, 1, 7],
        ["relu", "aten::relu", "Net_0", "model.py", 12, 1, 5],
    ]


def test_a_kernel_without_a_launch_leads_nowhere(tmp_path: Path) -> None:
    table = kernel_sources(TraceBuilder().gpu("lost", 0, 10, 99).trace(tmp_path))

    assert table.to_numpy().tolist() == [["lost", "", "", "", -1, 1, 10]]


def test_all_real_kernels_and_all_real_op_time_are_somewhere(shared: Path) -> None:
    trace = read(shared / "traces" / "tracelens_h100_bert_small.json.gz")

    places, kernels = kernel_sources(trace), kernel_table(trace)
    tree = module_table(trace)

    assert places["time_ns"].sum() == kernels["time_ns"].sum()
    assert places["count"].sum() == kernels["count"].sum()
    assert tree["self_ns"].sum() == tree.loc[tree["depth"] == 0, "time_ns"].sum()
    assert tree["self_ns"].sum() <= op_table(trace)["self_ns"].sum()
    assert tree["module"].str.split("/").str[0].unique().tolist() == ["BertLMHeadModel_0"]


def test_the_document_has_the_modules_that_take_longest_and_says_how_many_there_are(tmp_path: Path) -> None:
    found = tables(network(tmp_path), top=2)

    assert [(row.name, row.ops, row.time_ns, row.gpu_ns) for row in found.modules] == [
        ("Net_0", 1, 60, 75),
        ("Net_0/Linear_0", 2, 30, 40),
    ]
    assert {name: found.in_all[name] for name in ("kernels", "ops", "modules")} == {
        "kernels": 3,
        "ops": 4,
        "modules": 3,
    }


def test_no_op_is_in_no_module_where_a_trace_has_none(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100).trace(tmp_path)

    assert module_of(trace, np.array([-1, int(trace.rows("cpu_op")[0])])) == ["", ""]
