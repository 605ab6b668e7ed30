"""FUS001: op after op works through the same tensor element by element."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.pointwise_run import RULE
from tests.asking import ask
from tests.called import BF16, Call, on_cpu, on_gpu, tensor
from tests.observed import observed

X = tensor(1024, 1024)
RUN: list[Call] = [
    ("aten::mul", 100_000, X, X),
    ("aten::abs", 80_000, X),
    ("aten::add_", 120_000, X, X, 1),
    ("aten::clamp", 90_000, X, 0, 1),
]


def test_on_a_gpu_one_kernel_stays_as_long_as_the_longest(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, *RUN)

    [seen] = ask(RULE, trace)

    assert seen.message.startswith("Runs of up to 4 ops that work element by element on one tensor, 1 times per step")
    assert seen.evidence["bytes_moved"] == 4 * 1024 * 1024 * (3 + 2 + 3 + 2)
    assert seen.evidence["bytes_as_one_op"] == 4 * 1024 * 1024 * (2 + 1 + 1)  # two factors, one addend, the result
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 390_000 - 120_000


def test_on_a_cpu_one_pass_over_the_memory_stays(tmp_path: Path) -> None:
    trace = observed(on_cpu(tmp_path, *RUN), copy_bytes_per_s=1e11)

    [seen] = ask(RULE, trace)

    # mul moves three tensors in 100 µs, the run as a whole four: 133.3 µs, and 80 for the call of the compiled function
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(390_000 - 133_333 - 80_000, abs=5)
    assert "GPU" not in seen.message + seen.basis


@pytest.mark.parametrize(("rows", "found"), [(255, False), (256, True)])
def test_what_stays_in_a_cpus_cache_costs_no_memory(tmp_path: Path, rows: int, found: bool) -> None:
    small = tensor(rows, 1024)
    ops = [(name, time, *(small if what is X else what for what in given)) for name, time, *given in RUN]

    assert bool(ask(RULE, observed(on_cpu(tmp_path, *ops), copy_bytes_per_s=1e10))) is found


def test_without_a_measured_bandwidth_nothing_is_said_of_a_cpu(tmp_path: Path) -> None:
    assert ask(RULE, on_cpu(tmp_path, *RUN)) == []


def test_two_ops_are_no_run(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, *RUN[:2], ("aten::linear", 100_000, X, X, ""), *RUN[2:])) == []


def test_another_size_ends_it(tmp_path: Path) -> None:
    other = ("aten::abs", 80_000, tensor(1024, 512))

    assert ask(RULE, on_gpu(tmp_path, *RUN[:2], other, *RUN[2:])) == []


def test_a_norm_written_out_is_told_as_such(tmp_path: Path) -> None:
    one = tensor(1024, 1)
    norm = [
        ("aten::pow", 90_000, X, 2),
        ("aten::mean", 60_000, X, "[-1]", "True", ""),
        ("aten::add", 10_000, one, 1e-6, 1),
        ("aten::rsqrt", 10_000, one),
        ("aten::mul", 100_000, X, one),
        ("aten::to", 50_000, X, 15),
        ("aten::mul", 50_000, tensor(1024, of=BF16), tensor(1024, 1024, of=BF16)),
    ]

    assert ask(RULE, on_gpu(tmp_path, *norm)) == []


def test_a_loop_that_repeats_itself_is_as_many_runs(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, *RUN, *RUN, *RUN)

    [seen] = ask(RULE, trace)

    assert seen.evidence["chains"] == 3
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 3 * (390_000 - 120_000)


def test_a_loop_of_two_ops_has_no_run_in_it(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, *[("aten::mul", 100_000, X, 2), ("aten::add", 100_000, X, 1, 1)] * 5)) == []
