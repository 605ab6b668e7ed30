"""Two recordings lined up: what changed, by how much, per step; and what may not be compared, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.comparable import compare
from profiler_doctor.analyzer.comparison import Amount, Change, Comparison, Range, Side
from profiler_doctor.analyzer.diagnosis import Subject, diagnosis
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.errors import ExitCode, NotComparable
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.sides import side_of_document, side_of_trace
from profiler_doctor.analyzer.totals import StepTime
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.reports import comparison as shown
from tests import documents
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder

Rows = Mapping[str, tuple[int, int, int]]


def amounts(rows: Rows) -> dict[str, Amount]:
    """name → count, host ns, GPU ns"""
    return {name: Amount(count=count, host_ns=host, gpu_ns=gpu) for name, (count, host, gpu) in rows.items()}


def side(name: str = "A", ops: Rows | None = None, modules: Rows | None = None, **more: Any) -> Side:
    tables = {"ops": amounts(ops if ops is not None else {"aten::mm": (4, 100, 0)}), "modules": amounts(modules or {})}
    made = Side(
        name=name,
        ran_on="gpu",
        devices=frozenset({"H100"}),
        steps=2,
        step_ns=StepTime(median=100, low=95, high=105),
        timed=5,
        profiled=True,
        numbers={"busy_ns": 80},
        tables={**tables, "kernels": amounts(more.pop("kernels", {}))},
    )
    return replace(made, **more)


def only(changes: tuple[Change, ...]) -> Change:
    assert len(changes) == 1
    return changes[0]


def test_times_are_lined_up_per_step() -> None:
    before = side(ops={"aten::mm": (4, 100, 60)}, steps=2)
    after = side("B", ops={"aten::mm": (8, 120, 40)}, steps=4)

    change = only(compare(before, after).ops)

    assert (change.status, change.host_change_ns, change.gpu_change_ns) == ("changed", 30 - 50, 10 - 30)


def test_twice_the_steps_with_twice_the_work_is_no_change() -> None:
    comparison = compare(side(steps=2), side("B", ops={"aten::mm": (8, 200, 0)}, steps=4))

    assert only(comparison.ops).status == "same"
    assert comparison.unit == "step"


def test_without_steps_on_both_sides_whole_recordings_are_compared() -> None:
    comparison = compare(side(steps=2), side("B", steps=0))

    assert comparison.unit == "recording"
    assert any("longer one looks slower" in note for note in comparison.notes)


def test_what_is_on_one_side_alone_is_added_or_removed_and_the_largest_change_comes_first() -> None:
    shared = {"aten::mm": (2, 10, 0), "aten::add": (2, 10, 0)}
    before = side(ops={**shared, "aten::old": (2, 40, 0)})
    after = side("B", ops={**shared, "aten::new": (2, 60, 0)})

    found = [(change.name, change.status) for change in compare(before, after).ops]

    assert found == [("aten::new", "added"), ("aten::old", "removed"), ("aten::add", "same"), ("aten::mm", "same")]


def test_what_is_missing_from_a_table_of_top_rows_is_unknown() -> None:
    before = side(ops={"aten::mm": (2, 10, 0)}, cut=frozenset({"ops"}))
    comparison = compare(before, side("B", ops={"aten::mm": (2, 10, 0), "aten::tiny": (2, 1, 0)}))

    assert {change.name: change.status for change in comparison.ops} == {"aten::mm": "same", "aten::tiny": "unknown"}
    assert any("only the top rows of ops" in note for note in comparison.notes)


def test_rows_whose_steps_overlap_are_not_told_apart() -> None:
    before = side(ranges={"ops": {"aten::mm": Range(low_ns=40, high_ns=60)}})
    near = side("B", ranges={"ops": {"aten::mm": Range(low_ns=55, high_ns=90)}})
    far = side("B", ranges={"ops": {"aten::mm": Range(low_ns=61, high_ns=90)}})

    assert [only(compare(before, after).ops).apart for after in (near, far, side("B"))] == [False, True, None]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (StepTime(median=80, low=75, high=90), "faster"),
        (StepTime(median=130, low=120, high=140), "slower"),
        (StepTime(median=99, low=60, high=140), "same"),
        (StepTime(median=90, low=80, high=97), "inconclusive"),
        (StepTime(), "inconclusive"),
    ],
)
def test_a_step_is_faster_only_where_the_middle_halves_lie_apart(after: StepTime, verdict: str) -> None:
    assert compare(side(), side("B", step_ns=after)).step.verdict == verdict


def test_few_steps_and_unlike_clocks_do_not_judge() -> None:
    quick = StepTime(median=10, low=9, high=11)

    assert compare(side(), side("B", step_ns=quick, timed=2)).step.verdict == "inconclusive"
    assert compare(side(), side("B", step_ns=quick, profiled=False)).step.ratio is None


REFUSED = [
    (side("B", devices=frozenset({"MI300X"})), "the devices differ, H100 and MI300X"),
    (side("B", ran_on="cpu"), "holds none and shows no GPU"),
    (side("B", ran_on="unrecorded"), "whose work was not recorded"),
    (side("B", ops={f"aten::op{n}": (2, 10, 0) for n in range(9)}), "they share 0 of 10 op names"),
    (side("B", ops={}), "holds neither ops nor kernels"),
]


@pytest.mark.parametrize(("other", "said"), REFUSED)
def test_another_device_or_another_program_is_refused_with_the_reason(other: Side, said: str) -> None:
    with pytest.raises(NotComparable, match=r"A and B are not comparable: ") as refused:
        compare(side(), other)

    assert said in str(refused.value)
    assert refused.value.exit_code == ExitCode.INCONCLUSIVE


def test_devices_that_are_not_named_are_not_taken_for_different_ones() -> None:
    comparison = compare(side(), side("B", devices=frozenset()))

    assert any("The second does not name its device" in note for note in comparison.notes)


def test_models_are_told_apart_by_their_outermost_modules_even_with_the_same_ops() -> None:
    before = side(roots=frozenset({"ViT"}), modules={"ViT_0": (1, 1, 1)})

    with pytest.raises(NotComparable, match="the models differ, ViT and Bert"):
        compare(before, side("B", roots=frozenset({"Bert"}), modules={"Bert_0": (1, 1, 1)}))


def test_a_wrapped_model_is_the_same_model() -> None:
    before = side(roots=frozenset({"Net"}), modules={"Net_0": (1, 1, 1)})
    wrapped = {"DataParallel_0": (1, 1, 1), "DataParallel_0/Net_0": (1, 1, 1)}

    assert compare(before, side("B", roots=frozenset({"DataParallel"}), modules=wrapped)).unit == "step"


def test_a_compiled_program_may_have_other_ops() -> None:
    compiled = {"Torch-Compiled Region: 0/0": (2, 30, 0), "triton_poi_fused_add": (2, 20, 0)}

    comparison = compare(side(), side("B", ops=compiled))

    assert any("Only one is compiled" in note for note in comparison.notes)


def test_a_batch_of_another_size_is_another_workload_and_recomputation_is_not() -> None:
    before = side(product_flops=200, steps=2)

    with pytest.raises(NotComparable, match="the batch, the shapes or the model differ"):
        compare(before, side("B", product_flops=200, steps=1))
    assert compare(before, side("B", product_flops=266, steps=2)).unit == "step"


def program(folder: Path, name: str, scale: int, **more: Any) -> Trace:
    """Four steps of 1000 ns; each runs a layer that launches one kernel of `scale` ns."""
    builder = TraceBuilder(**more)
    for number in range(4):
        at = 1000 * number
        builder.step(number, at, 1000).frame("nn.Module: Net_0", at + 10, 500)
        builder.op("aten::linear", at + 20, 200).op("aten::addmm", at + 30, 100 + number)
        builder.launch("gemm", at=(at + 40, 5), on_gpu=(at + 300, scale + number))
    return read(builder.write(folder, name))


def test_a_trace_brings_its_ops_modules_kernels_and_their_spread(tmp_path: Path) -> None:
    before, after = (side_of_trace(program(tmp_path, f"{n}.json", n), str(n)) for n in (300, 200))

    comparison = compare(before, after)

    kernel, module = only(comparison.kernels), only(comparison.modules)
    assert (kernel.name, kernel.gpu_change_ns, kernel.apart) == ("gemm", -100, True)
    assert (module.name, module.gpu_change_ns, module.host_change_ns) == ("Net_0", -100, 0)
    assert {change.name: change.apart for change in comparison.ops} == {"aten::addmm": True, "aten::linear": False}
    assert before.roots == {"Net"}


def test_a_document_lines_up_with_the_trace_that_it_is_of(tmp_path: Path) -> None:
    trace = program(tmp_path, "a.json", 300)

    comparison = compare(side_of_document(_document(trace), "document"), side_of_trace(trace, "trace"))

    assert {change.status for change in (*comparison.ops, *comparison.modules, *comparison.kernels)} == {"same"}
    assert all(number.before == number.after for number in comparison.numbers)
    assert comparison.step.ratio == 1


def test_documents_of_runs_know_their_processor_and_their_unprofiled_time() -> None:
    run = documents.resnet()
    found = side_of_document(run, "run")
    other = replace(run, environment={**run.environment, "cpu": {"model": "Xeon"}})

    assert (found.ran_on, found.profiled, found.timed) == ("cpu", False, 40)
    assert found.devices == {"AMD EPYC 7B13"}
    with pytest.raises(NotComparable, match="AMD EPYC 7B13 and Xeon"):
        compare(found, side_of_document(other, "other"))


def test_hostile_names_move_neither_terminal_nor_table() -> None:
    name = "a|b\n# \x1b[31m`x` <img src=x>\u202e"
    comparison = compare(side(), side("B", ops={"aten::mm": (4, 100, 0), name: (2, 50, 0)}))

    text, table = shown.text(comparison, 5), shown.markdown(comparison, 5)

    assert not set("\x1b\u202e") & set(text + table)
    assert len([line for line in text.splitlines() if "img" in line]) == 1
    row = next(line for line in table.splitlines() if "img" in line)
    assert "\\|b" in row
    assert "\\<img" in row


def test_equal_sides_show_no_rows() -> None:
    text = shown.text(compare(side(), side("B")), 5)

    assert "Ops: 1 same" in text
    assert "aten::mm" not in text


def test_the_pair_of_traces_differs_in_what_a_plain_count_finds(shared: Path) -> None:
    base, test = (shared / "traces" / f"hta_compare_{name}.json.gz" for name in ("base", "test"))
    comparison = compare(side_of_trace(read(base), "base"), side_of_trace(read(test), "test"))

    for category, changes in (("cpu_op", comparison.ops), ("kernel", comparison.kernels)):
        one, two = _counts(base, category), _counts(test, category)
        assert {change.name for change in changes if change.status == "added"} == set(two) - set(one)
        assert {change.name for change in changes if change.status == "removed"} == set(one) - set(two)
        counted = {change.name: (_count(change.before), _count(change.after)) for change in changes}
        assert counted == {name: (one.get(name, 0), two.get(name, 0)) for name in {**one, **two}}
    added = {change.name: change.host_change_ns for change in comparison.ops if change.status == "added"}
    assert added == {"All2All_Pooled_Req": 155_500, "AddmmBackward0": 103_500, "CatBackward0": 5_500}


def test_the_pair_of_graph_traces_is_the_same_in_everything_that_is_compared(shared: Path) -> None:
    comparison = _compared(shared, "kineto_docs_graph_before", "kineto_docs_graph_after")

    assert {change.status for change in (*comparison.ops, *comparison.kernels)} == {"same"}
    assert (len(comparison.ops), len(comparison.kernels), comparison.unit) == (4, 1, "recording")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hta_rec_rank0", "hta_rec_rank1"),
        ("param_dlrm_8ranks/rank0", "param_dlrm_8ranks/rank5"),
        ("tracelens_h100_vit", "tracelens_h100_vit"),
    ],
)
def test_recordings_of_one_program_are_comparable(shared: Path, before: str, after: str) -> None:
    assert _compared(shared, before, after).ops


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("tracelens_h100_vit", "tracelens_mi300_vit", "the devices differ"),
        ("tracelens_h100_vit", "tracelens_h100_bert_small", "the models differ"),
        ("tracelens_h100_bert_small", "tracelens_h100_qwen05b", "the models differ"),
        ("param_dlrm_8ranks/rank0", "hta_rec_rank0", "two programs"),
        ("hta_a100_alexnet", "hta_a100_nccl_resnet", "two programs"),
        ("particle_no_gpu_activity", "hta_a100_alexnet", "not recorded"),
        ("hta_cpu_rank", "hta_rec_rank0", "no GPU"),
    ],
)
def test_recordings_of_different_things_are_not(shared: Path, before: str, after: str, said: str) -> None:
    with pytest.raises(NotComparable, match=said):
        _compared(shared, before, after)


def _compared(shared: Path, before: str, after: str) -> Comparison:
    sides = [side_of_trace(read(shared / "traces" / f"{name}.json.gz"), name) for name in (before, after)]
    return compare(*sides)


def _document(trace: Trace) -> Diagnosis:
    return diagnosis(Subject(name="trace", command=()), trace, examine(trace, Found(())))


def _count(amount: Amount | None) -> int:
    return amount.count if amount else 0


def _counts(path: Path, category: str) -> dict[str, int]:
    events, _ = plain.load(path)
    found: dict[str, int] = {}
    for event in events:
        if event.get("ph") == "X" and plain.category(event) == category:
            found[event["name"]] = found.get(event["name"], 0) + 1
    return found
