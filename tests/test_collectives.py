"""Collectives: told by what kernels are called, sized by what the trace says, exposed where nothing else runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.collectives import (
    COMMUNICATES,
    collectives,
    collectives_by_kind,
    communication,
    kind_of,
)
from profiler_doctor.analyzer.reading import read
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder

NAMES = {
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)": "all_reduce",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_gather",
    "ncclDevKernel_ReduceScatter_Sum_bf16": "reduce_scatter",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t": "send_recv",
    "ncclDevKernel_Generic_4(ncclDevKernelArgs)": "",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": "all_reduce",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)": "all_reduce",
    "void deep_ep::intranode::dispatch<8, 768>(int4*)": "all_to_all",
    "allreduce_fusion_kernel_oneshot_lamport": "all_reduce",
    "userbuffers_fp16_sum_inplace_gpu_rr_AllReduce": "all_reduce",
}
OTHERS = [
    "void at::native::vectorized_gather_kernel<16, long>(char*)",
    "void small_gather_kernel<float>(float*)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(float)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    "void cub::DeviceReduceKernel<float>(float*)",
    "void marshall_reduce_rows(float*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
]


@pytest.mark.parametrize(("name", "kind"), NAMES.items())
def test_a_collective_is_told_by_its_kernel(name: str, kind: str) -> None:
    assert COMMUNICATES.search(name)
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_no_collectives(name: str) -> None:
    assert not COMMUNICATES.search(name)


def test_only_time_without_another_kernel_is_exposed(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("ncclKernel_AllReduce", 100, 100, 1, stream=20)
    builder.gpu("gemm", 50, 70, 2).gpu("gemm", 110, 30, 3).gpu("Memcpy DtoD (Device -> Device)", 150, 50, 4)
    trace = builder.gpu("ncclKernel_AllReduce", 160, 60, 5, stream=21).trace(tmp_path)

    table = collectives(trace)

    assert table["dur_ns"].tolist() == [100, 60]
    assert table["exposed_ns"].tolist() == [100 - 40, 60]
    assert communication(trace).to_numpy().tolist() == [[0, 2, 120, 80]]


def test_the_size_is_that_of_the_larger_buffer_in_the_kernels_own_arguments(tmp_path: Path) -> None:
    told = {"In msg nelems": 1000, "Out msg nelems": 8000, "Group size": 8, "dtype": "BFloat16"}
    builder = TraceBuilder().launch(
        "ncclDevKernel_Generic", (0, 5), (10, 5), **told, **{"Collective name": "_allgather_base"}
    )

    row = collectives(builder.trace(tmp_path)).iloc[0]

    assert (row["bytes"], row["group_size"], row["kind"]) == (16_000, 8, "all_gather")


def test_without_arguments_the_mark_around_the_launch_tells_size_and_kind(tmp_path: Path) -> None:
    shape = {"Input Dims": [[384], [24]], "Input type": ["long int", "float"]}
    builder = TraceBuilder().op("c10d::alltoall_base_", 0, 100, **shape).op("record_param_comms", 10, 80)
    builder.event("user_annotation", "nccl:all_to_all", 20, 60, args={"Input Dims": [[24]], "Input type": ["float"]})
    builder.launch("ncclKernel_SendRecv_RING", at=(30, 5), on_gpu=(200, 10))

    row = collectives(builder.trace(tmp_path)).iloc[0]

    assert (row["bytes"], row["group_size"], row["kind"]) == (384 * 8, -1, "all_to_all")


def test_a_count_that_does_not_fit_64_bits_is_passed_over(tmp_path: Path) -> None:
    told = {"In msg nelems": 10159970886766084423, "Out msg nelems": 1, "dtype": "Float"}
    builder = TraceBuilder().gpu("ncclKernel_AllReduce", 0, 5, 1, **told)

    assert collectives(builder.trace(tmp_path))["bytes"].tolist() == [4]


def test_a_cpu_backends_collective_is_exposed_while_no_op_runs_elsewhere(tmp_path: Path) -> None:
    builder = TraceBuilder(tid=1).op("aten::mm", 0, 40).op("aten::mm", 70, 10)
    builder.event(
        "user_annotation", "gloo:all_reduce", 30, 70, tid=2, args={"Input Dims": [[10]], "Input type": ["float"]}
    )
    builder.event("cpu_op", "aten::add_", 90, 5, tid=2, args={})

    row = collectives(builder.trace(tmp_path)).iloc[0]

    assert (row["kind"], row["device"], row["bytes"], row["exposed_ns"]) == ("all_reduce", -1, 40, 70 - 10 - 10)


def test_multimem_reductions_are_seen_where_an_nccl_name_would_miss_them(shared: Path) -> None:
    table = collectives(read(shared / "traces" / "tracelens_b200_vllm_eager.json.gz"))

    assert len(table) == 74
    assert table["name"].str.contains("nccl").sum() == 1
    assert table["kind"].value_counts().to_dict() == {"all_reduce": 73, "all_gather": 1}


@pytest.mark.parametrize("name", ["hta_a100_nccl_resnet", "hta_rec_rank0", "param_dlrm_8ranks/rank3"])
def test_exposed_time_is_the_union_with_compute_less_compute(shared: Path, name: str) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    talk, work, told = _plainly(path)

    trace = read(path)

    assert communication(trace)["communication_ns"].tolist() == [plain.covered(talk)]
    assert communication(trace)["exposed_ns"].tolist() == [plain.covered(talk + work) - plain.covered(work)]
    assert collectives(trace)["exposed_ns"].sum() == sum(
        plain.covered([one, *work]) - plain.covered(work) for one in talk
    )
    known = collectives(trace)["bytes"].tolist()
    assert [size for size, expected in zip(known, told, strict=True) if expected] == [size for size in told if size]
    assert collectives_by_kind(trace)["count"].sum() == len(talk)


def _plainly(path: Path) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[int]]:
    """The intervals of NCCL kernels and of all others, and the bytes that the kernels' own arguments give."""
    events, _ = plain.load(path)
    kernels = [event for event in events if event.get("ph") == "X" and plain.category(event) == "kernel"]
    kernels.sort(key=lambda event: plain.ns(event["ts"]))
    spans = [(plain.ns(event["ts"]), plain.ns(event["ts"]) + plain.ns(event["dur"])) for event in kernels]
    named = [event["name"].startswith("nccl") for event in kernels]
    talk = [span for span, is_nccl in zip(spans, named, strict=True) if is_nccl]
    work = [span for span, is_nccl in zip(spans, named, strict=True) if not is_nccl]
    arguments = [event["args"] for event, is_nccl in zip(kernels, named, strict=True) if is_nccl]
    wide = {"Float": 4, "Long": 8, "Byte": 1}
    told = [
        max(each["In msg nelems"], each["Out msg nelems"]) * wide[each["dtype"]] if "dtype" in each else 0
        for each in json.loads(json.dumps(arguments, default=float))
    ]
    return talk, work, told
