"""DST001: the GPU only communicates, and computes nothing meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.exposed_collective import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def waiting_for(name: str, step_ns: int = 300_000) -> TraceBuilder:
    """Kernels of 200 and 100 µs with a collective of 100 µs on another stream between them, all launched at once."""
    built = TraceBuilder().step(1, 0, step_ns)
    built.launch("backward", (5_000, 2_000), (20_000, 200_000))
    built.launch(name, (8_000, 2_000), (225_000, 100_000), stream=20)
    return built.launch("update", (11_000, 2_000), (330_000, 100_000))


@pytest.mark.parametrize(
    "name",
    [
        ALL_REDUCE,
        "ncclKernel_AllGather_RING_LL_Sum_int8_t",
        "void multimem_all_reduce_kernel<c10::BFloat16, 16>(...)",
        "void sglang::cross_device_reduce_1stage<half, 8>(...)",
        "nvshmem_barrier_kernel",
        "void deep_ep::intranode::dispatch<8>(...)",
    ],
)
def test_a_collective_that_nothing_hides_is_found_whatever_the_library(tmp_path: Path, name: str) -> None:
    trace = waiting_for(name).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["collectives"], seen.evidence["exposed_ns"]) == (1, 100_000)
    assert "waiting for other ranks" in seen.message
    assert seen.edit is not None
    # the update follows the backward pass, over at 220 µs, by the usual 1.5 µs and is over 100 µs later, not at 430
    assert stake_of(trace, [seen.edit]).ns_per_step == 430_000 - (220_000 + 1_500 + 100_000)


def test_communication_itself_does_not_get_shorter(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 100_000).launch("backward", (5_000, 2_000), (20_000, 50_000))
    trace = built.launch(ALL_REDUCE, (8_000, 2_000), (75_000, 400_000), stream=20).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 475_000 - 400_000


def test_a_collective_beside_the_backward_pass_is_healthy(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 300_000).launch("backward", (5_000, 2_000), (20_000, 200_000))
    built.launch(ALL_REDUCE, (8_000, 2_000), (60_000, 150_000), stream=20)

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize(("step_ns", "found"), [(2_000_000, True), (2_000_001, False)])
def test_a_twentieth_of_the_window_must_be_exposed(tmp_path: Path, step_ns: int, found: bool) -> None:
    assert bool(ask(RULE, waiting_for(ALL_REDUCE, step_ns).trace(tmp_path))) is found


def test_an_ordinary_reduction_is_no_collective(tmp_path: Path) -> None:
    assert ask(RULE, waiting_for("void at::native::reduce_kernel<512, 1>(...)").trace(tmp_path)) == []


def test_where_the_host_is_slower_still_it_says_so_and_claims_nothing_yet(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 2_000_000)
    for place in range(10):
        at = place * 200_000
        built.launch("kernel", (at, 2_000), (at + 5_000, 10_000))
        built.launch(ALL_REDUCE, (at + 20_000, 2_000), (at + 25_000, 40_000))

    [seen] = ask(RULE, built.trace(tmp_path))

    # launched at once, all follow each other at 1 µs: 10 * 10 + 10 * 40 + 19 µs; beside each other the 400 µs remain
    assert seen.evidence["share_once_launches_are_cured"] == pytest.approx((519_000 - 400_000) / 2_000_000)
    assert seen.edit is None
    assert "once the launches are cured" in seen.message
