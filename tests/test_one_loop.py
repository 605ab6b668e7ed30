"""What stays of a chain of ops on a CPU when a compiler makes one loop of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.child.function_costs import function_ns
from profiler_doctor.analyzer.measures.decomposed import activations
from profiler_doctor.analyzer.measures.one_loop import fused
from profiler_doctor.analyzer.measures.runs import pointwise_runs
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from tests.called import BF16, Call, on_cpu, tensor
from tests.observed import observed

X, SMALL, WIDE = tensor(1024, 1024), tensor(1024, 512), tensor(512, 512, of="double")
CALL_NS = 80_000  # of the compiled function, after tensors of 4 MiB


def left_ns(trace: Trace, total_ns: int) -> int:
    """What stays of the pointwise runs of a step, which take `total_ns`."""
    return total_ns - stake_of(trace, [fused(trace, [run.chain for run in pointwise_runs(trace)])]).ns_per_step


def one(op: str, dur_ns: int, *more: Any, of: Any = X) -> Call:
    return (f"aten::{op}", dur_ns, of, *more)


def test_of_plain_arithmetic_the_quickest_pass_stays(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, one("mul", 300_000, 2), one("neg", 260_000), one("clamp", 310_000, 0, 1))

    assert left_ns(trace, 870_000) == pytest.approx(260_000 + CALL_NS, abs=5)


def test_that_pass_is_longer_where_the_chain_takes_more_tensors(tmp_path: Path) -> None:
    # read x, y and z and write one: twice the bytes of neg, 4/3 of those of add, which is the less
    trace = on_cpu(tmp_path, one("neg", 240_000), one("add", 300_000, X, 1), one("mul", 310_000, X))

    assert left_ns(trace, 850_000) == pytest.approx(400_000 + CALL_NS, abs=5)


def test_an_op_in_place_does_not_tell_what_a_new_tensor_takes(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, one("mul", 250_000, 2), one("neg_", 90_000), one("abs_", 80_000))

    assert left_ns(trace, 420_000) == pytest.approx(250_000 + CALL_NS, abs=5)


def test_where_all_are_in_place_so_is_the_loop(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, one("mul_", 95_000, 2), one("neg_", 90_000), one("abs_", 80_000))

    assert left_ns(trace, 265_000) == pytest.approx(80_000 + CALL_NS, abs=5)


@pytest.mark.parametrize(
    ("threads", "of", "function_ns"),
    [
        (1, SMALL, 2 * 524_288 * 0.1),
        (4, SMALL, 2 * 524_288 * 0.1 / 4),
        (1, WIDE, 2 * 262_144 * 0.25),
    ],
    ids=["one thread", "four threads", "float64"],
)
def test_functions_stay_at_the_price_that_was_measured_on_the_machine(
    tmp_path: Path, threads: int, of: Any, function_ns: float
) -> None:
    prices = {"tanh float": 0.1, "tanh double": 0.25}
    ops = [one("mul", 300_000, 2, of=of), one("tanh", 400_000, of=of), one("tanh", 400_000, of=of)]
    trace = observed(on_cpu(tmp_path, *ops, step_ns=2_000_000), function_ns=prices, threads=threads)

    assert left_ns(trace, 1_100_000) == pytest.approx(300_000 + function_ns + CALL_NS, abs=5)


def test_tanh_of_a_large_float32_tensor_takes_longer_in_a_loop(tmp_path: Path) -> None:
    just, more, half = tensor(1024, 1024), tensor(1025, 1024), tensor(4096, 1024, of=BF16)  # 8 MiB moved, and more
    for of, times in ((just, 1.0), (more, 1.5), (half, 1.0)):
        ops = [one("mul", 300_000, 2, of=of), one("tanh", 400_000, of=of), one("neg", 310_000, of=of)]
        trace = observed(on_cpu(tmp_path, *ops, step_ns=2_000_000), function_ns={"tanh float": 0.1}, threads=1)

        function_ns = 0.1 * of[0][0] * 1024 * times
        assert left_ns(trace, 1_010_000) == pytest.approx(300_000 + function_ns + CALL_NS, abs=5)


def test_other_functions_of_their_kind_count_as_exp(tmp_path: Path) -> None:
    ops = [one("mul", 300_000, 2), one("sin", 310_000), one("log", 310_000)]
    trace = observed(on_cpu(tmp_path, *ops), function_ns={"exp float": 0.05})

    assert left_ns(trace, 920_000) == pytest.approx(300_000 + 2 * 1_048_576 * 0.05 + CALL_NS, abs=5)


def test_without_a_measured_price_a_usual_one_counts(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, one("mul", 300_000, 2), one("erf", 700_000), one("add", 300_000, 1, 1), step_ns=2_000_000)

    assert left_ns(trace, 1_300_000) == pytest.approx(300_000 + 1_048_576 * 0.5 + CALL_NS, abs=5)


@pytest.mark.parametrize(("exponent", "stays"), [(1.7, 500_000), (3, 0), (3.0, 0), (0.5, 0)])
def test_a_power_with_a_fraction_stays_and_one_that_is_a_product_does_not(
    tmp_path: Path, exponent: float, stays: int
) -> None:
    trace = on_cpu(
        tmp_path, one("mul", 300_000, 2), one("pow", 800_000, exponent), one("neg", 310_000), step_ns=2_000_000
    )

    assert left_ns(trace, 1_410_000) == pytest.approx(300_000 + stays + CALL_NS, abs=5)


def test_small_tensors_leave_the_call_quick(tmp_path: Path) -> None:
    small = tensor(256, 256)
    ops = [one("mul", 30_000, 2, of=small), one("neg", 31_000, of=small), one("abs", 32_000, of=small)]

    assert left_ns(on_cpu(tmp_path, *ops), 93_000) == pytest.approx(30_000 + 15_000, abs=5)


def test_casts_keep_nothing_where_the_other_ops_can_hold_what_stays(tmp_path: Path) -> None:
    half = tensor(1024, 1024, of=BF16)
    cast = ("aten::to", 200_000, half, 6)
    ops: list[Call] = [cast, one("mul", 300_000, 2), one("neg", 310_000), one("abs", 320_000)]
    trace = on_cpu(tmp_path, *ops, step_ns=2_000_000)
    [run] = pointwise_runs(trace)

    keep = fused(trace, [run.chain]).keep

    assert [keep[row] for row in run.chain.casts] == [0.0]
    # the cast is the quickest pass: 6 bytes an element, as many as the chain as a whole: 2 read and 4 written
    assert left_ns(trace, 1_130_000) == pytest.approx(200_000 + CALL_NS, abs=5)


def test_a_chain_that_something_else_delayed_is_judged_by_its_like(tmp_path: Path) -> None:
    quiet = [one("mul", 300_000, 2), one("neg", 260_000), one("abs", 340_000)]
    delayed = [one("mul", 300_000, 2), one("neg", 3_260_000), one("abs", 340_000)]
    between: Call = ("aten::linear", 100_000, X, X, "")
    trace = on_cpu(tmp_path, *quiet, between, *delayed, step_ns=10_000_000)

    # 260 µs and half of the step's call are 300 of 900 µs, so that a third stays of each
    assert left_ns(trace, 900_000 + 3_900_000) == pytest.approx(1_600_000, abs=5)


def test_where_a_loop_is_no_quicker_nothing_is_at_stake(tmp_path: Path) -> None:
    # mish: 1000 of 1300 µs are softplus' own, and tanh takes 1.6 µs for a thousand numbers, however quick MKL's is
    ops: list[Call] = [one("softplus", 1_300_000, 1, 20), one("tanh", 400_000), one("mul", 300_000, X)]
    trace = on_cpu(tmp_path, *ops, step_ns=4_000_000)
    [chain] = activations(trace)

    assert stake_of(trace, [fused(trace, [chain])]).ns_per_step == 0


def test_prices_are_of_the_cpu_alone() -> None:
    assert function_ns(SimpleNamespace(), "cuda") == {}
