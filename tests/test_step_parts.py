"""Where a recorded step goes: parts that exclude each other and add up."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.cpu import cpu_step_parts
from profiler_doctor.analyzer.measures.families import family_of
from profiler_doctor.analyzer.measures.parts import step_by_part
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.reading import read
from tests.conftest import SHARED
from tests.trace_builder import TraceBuilder


def test_each_op_counts_with_its_self_time_in_its_family(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 1000).op("aten::conv2d", 100, 300).op("aten::copy_", 150, 50)
    builder.op("aten::relu", 500, 40).op("aten::item", 600, 10)
    assert cpu_step_parts(builder.trace(tmp_path)) == {
        "python between ops": 650,
        "convolution": 250,
        "copies and layout": 50,
        "pointwise": 40,
        "scalar reads": 10,
    }


def test_a_value_that_is_broadcast_is_no_communication_and_a_broadcast_between_processes_is() -> None:
    assert family_of("PjitFunction(broadcast_in_dim)") == "views"
    assert family_of("c10d::broadcast_") == "communication"
    assert family_of("torch_broadcast_coalesced") == "communication"


def test_what_is_around_an_op_decides_before_its_name(tmp_path: Path) -> None:
    builder = (
        TraceBuilder()
        .step(1, 0, 1000)
        .annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 100)
        .op("aten::stack", 10, 20)
        .annotation("mine", 100, 300)
        .op("aten::mm", 110, 50)
        .op("autograd::engine::evaluate_function: MmBackward0", 400, 200)
        .op("aten::mm", 410, 100)
        .annotation("Optimizer.step#SGD.step", 700, 200)
        .op("aten::add_", 710, 90)
    )
    assert cpu_step_parts(builder.trace(tmp_path)) == {
        "python between ops": 450,
        "backward": 200,
        "optimizer": 200,
        "data loading": 100,
        "matmul": 50,
    }


def test_waiting_for_the_backward_pass_of_another_thread_is_backward(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 1000).op("aten::mm", 0, 300)
    builder.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 250, 450, tid=2, args={})
    builder.event("cpu_op", "aten::mm", 800, 100, tid=3, args={})
    assert cpu_step_parts(builder.trace(tmp_path)) == {"backward": 400, "matmul": 300, "python between ops": 300}


def test_ops_that_cross_the_steps_edge_count_only_inside_it(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 150).step(1, 100, 100).op("aten::relu", 190, 50)
    assert cpu_step_parts(builder.trace(tmp_path)) == {"matmul": 50, "python between ops": 40, "pointwise": 10}


def test_the_step_of_median_length_is_shown_and_the_first_never(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 50).step(2, 50, 30).step(3, 80, 10).step(4, 90, 60).op("aten::mm", 50, 20)
    assert cpu_step_parts(builder.trace(tmp_path)) == {"matmul": 20, "python between ops": 10}


def test_a_run_without_steps_is_not_split(tmp_path: Path) -> None:
    assert step_by_part(TraceBuilder().op("aten::mm", 0, 5).trace(tmp_path)) == {}


def test_on_a_device_kernels_come_before_what_they_hide(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 1000).launch("gemm", at=(10, 5), on_gpu=(100, 200))
    builder.launch("ncclDevKernel_AllReduce", at=(20, 5), on_gpu=(250, 100), stream=9)
    builder.launch("Memcpy DtoD (Device -> Device)", at=(30, 5), on_gpu=(340, 50), stream=8)
    builder.launch("gemm", at=(600, 5), on_gpu=(700, 100))
    assert step_by_part(builder.trace(tmp_path)) == {
        "before the first or after the last device work": 300,
        "kernels": 300,
        "idle: python": 210,
        "idle: launch on its way": 100,
        "exposed copies": 50,
        "exposed communication": 40,
    }


@pytest.mark.parametrize("path", sorted((SHARED / "traces").glob("*.json.gz")), ids=lambda path: path.name)
def test_the_parts_of_a_real_step_add_up_to_it_exactly(path: Path) -> None:
    trace = read(path)
    parts = step_by_part(trace)
    assert sum(parts.values()) in (steps(trace)["dur_ns"].tolist() or [0])
    assert all(time > 0 for time in parts.values())


FAMILY = {
    "attention": "aten::scaled_dot_product_attention aten::_scaled_dot_product_flash_attention_for_cpu",
    "convolution": "aten::conv2d aten::_convolution aten::mkldnn_convolution aten::convolution_backward",
    "matmul": "aten::mm aten::addmm aten::bmm aten::baddbmm aten::linear aten::matmul aten::mv aten::addmv_ aten::dot",
    "normalization": "aten::native_batch_norm aten::layer_norm aten::_softmax aten::log_softmax",
    "pooling and resampling": "aten::max_pool2d_with_indices aten::upsample_nearest2d",
    "embedding and indexing": "aten::embedding aten::index aten::index_put_ aten::topk aten::tril",
    "loss": "aten::nll_loss_forward aten::cross_entropy_loss",
    "random numbers": "aten::dropout aten::bernoulli_ aten::normal_ aten::randn aten::exponential_",
    "copies and layout": "aten::copy_ aten::to aten::_to_copy aten::cat aten::contiguous",
    "views": "aten::t aten::as_strided detach_ aten::transpose aten::unsqueeze",
    "creation": "aten::empty aten::zeros_like aten::fill_ aten::zero_ aten::arange aten::resize_",
    "scalar reads": "aten::item aten::_local_scalar_dense aten::is_nonzero",
    "reduction": "aten::sum aten::mean aten::max aten::norm aten::linalg_vector_norm aten::argmax",
    "recurrent cells": "aten::lstm aten::mkldnn_rnn_layer",
    "optimizer": "aten::_foreach_add_ aten::_fused_adamw_",
    "communication": "c10d::allreduce_ nccl:all_reduce",
    "compiled code": "Torch-Compiled Region: 0/0",
    "pointwise": "aten::add_ aten::mul aten::gelu aten::masked_fill_ aten::clamp_max aten::minimum aten::where",
    "other ops": "mylib::transmogrify",
}


@pytest.mark.parametrize(("family", "names"), FAMILY.items())
def test_the_family_of_an_op_is_told_by_its_name(family: str, names: str) -> None:
    listed = [names] if family == "compiled code" else names.split()
    assert [family_of(name) for name in listed] == [family] * len(listed)
