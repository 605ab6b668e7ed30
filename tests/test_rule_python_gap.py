"""PYB001: the step spends its time in Python, in no op at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.facts import Facts, TensorFacts
from profiler_doctor.analyzer.jax_facts import JaxFacts
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.python_gap import RULE
from tests.asking import ask
from tests.loading import SINGLE
from tests.trace_builder import TraceBuilder

STEP = 4_000_000


def steps_of_4_ms(gaps_ns: list[int], inside: str | None = None) -> TraceBuilder:
    """In each step an op, a gap, and another op until the end; `inside` a range over the gap."""
    built = TraceBuilder()
    for number, gap_ns in enumerate(gaps_ns):
        start = number * STEP
        built.step(number, start, STEP)
        built.op("aten::linear", start, 500_000)
        if inside is not None:
            built.annotation(inside, start + 500_000, gap_ns)
        built.op("aten::relu", start + 500_000 + gap_ns, STEP - 500_000 - gap_ns)
    return built


def with_frames(folder: Path) -> Trace:
    """Three such steps, each with 1 ms in a function of the user's that sorts."""
    built = steps_of_4_ms([1_000_000] * 3)
    for number in range(3):
        start = number * STEP
        built.frame("/home/user/train.py(7): step", start, STEP)
        built.frame("/home/user/data.py(40): shuffle", start + 500_000, 1_000_000)
        built.frame("<built-in function sorted>", start + 550_000, 900_000)
    return built.trace(folder)


def test_python_at_the_same_place_of_each_step_is_found(tmp_path: Path) -> None:
    trace = steps_of_4_ms([1_000_000] * 4).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert seen.evidence["share"] == pytest.approx(0.25)
    assert seen.intervals_ns[0] == (STEP + 500_000, STEP + 1_500_000)
    assert "between aten::linear and aten::relu" in seen.message
    [outcome] = examine(trace, Found((RULE,))).outcomes
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(1_000_000, abs=2)


@pytest.mark.parametrize(("jitted", "found"), [(False, False), (True, True)])
def test_python_between_the_operations_of_an_uncompiled_jax_function_is_another_rules(
    tmp_path: Path, jitted: bool, found: bool
) -> None:
    built = steps_of_4_ms([1_000_000] * 4)
    for number in range(4):
        for place in range(4):
            start = number * STEP + 2_000_000 + place * 10_000
            built.op("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", start, 2_000)
    facts = Facts(jax=JaxFacts(version="0.10", function="update()", jitted=jitted))

    assert bool(ask(RULE, built.trace(tmp_path).with_capture(facts, None))) == found


def test_the_deepest_frame_and_the_users_own_are_named(tmp_path: Path) -> None:
    [seen] = ask(RULE, with_frames(tmp_path))

    assert (seen.where.file, seen.where.line) == ("/home/user/data.py", 40)
    assert seen.evidence["frame"] == "<built-in function sorted>"
    assert seen.message.endswith(", in the built-in sorted.")


def test_of_a_built_in_method_neither_the_address_nor_the_binding_is_named(tmp_path: Path) -> None:
    built = steps_of_4_ms([1_000_000] * 3)
    for number in range(3):
        of = "pybind11_builtins.function_record object at 0x7f4551faa710"
        built.frame(f"<built-in method write_record of {of}>", number * STEP + 550_000, 900_000)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.message.endswith(", in the built-in write_record.")


def test_our_second_recording_lends_the_frames(tmp_path: Path) -> None:
    plain = steps_of_4_ms([1_000_000] * 3).trace(tmp_path)

    [seen] = ask(RULE, plain.with_capture(None, with_frames(tmp_path)))

    assert (seen.where.file, seen.where.line) == ("/home/user/data.py", 40)


@pytest.mark.parametrize(("around", "line"), [("train.py(7): step", 12), ("data.py(40): shuffle", 40)])
def test_python_in_the_function_that_calls_the_ops_is_named_by_the_call_before_it(
    tmp_path: Path, around: str, line: int
) -> None:
    built = steps_of_4_ms([1_000_000] * 3)
    for start in range(0, 3 * STEP, STEP):
        built.frame("train.py(7): step", start, STEP)
        if around != "train.py(7): step":
            built.frame(around, start + 500_000, 1_000_000)
    starts = [start + offset for start in range(0, 3 * STEP, STEP) for offset in (0, 1_500_000)]
    nothing = ((),) * len(starts)
    lines = (("train.py", 12), ("train.py", 15))
    stacks = built.trace(tmp_path)
    told = TensorFacts(
        starts=tuple(stacks.base_ns + start for start in starts),
        given=nothing,
        made=nothing,
        storages=(),
        sizes=(),
        lines=lines,
        called_at=(0, 1) * 3,
    )

    [seen] = ask(RULE, steps_of_4_ms([1_000_000] * 3).trace(tmp_path).with_capture(Facts(tensors=told), stacks))

    assert seen.where.line == line
    assert f"({line}): " in seen.message


def test_what_happens_in_one_step_alone_is_another_programs(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_4_ms([10_000, 10_000, 3_000_000, 10_000, 10_000]).trace(tmp_path)) == []


def test_a_program_that_takes_the_cpu_away_at_one_place_counts_for_what_every_step_loses(tmp_path: Path) -> None:
    """After the first step, which is not judged: 1.5 and 1 ms, 0.31 ms, and nothing; that is 0.31 ms at most."""
    assert ask(RULE, steps_of_4_ms([10_000, 1_500_000, 1_000_000, 310_000, 10_000]).trace(tmp_path)) == []


@pytest.mark.parametrize("builtin", [False, True])
def test_what_our_own_capture_does_is_none_of_the_programs(tmp_path: Path, builtin: bool) -> None:
    ours = steps_of_4_ms([1_000_000] * 3)
    for start in range(0, 3 * STEP, STEP):
        ours.frame("/home/user/train.py(7): step", start, STEP)
        ours.frame("/anywhere/profiler_doctor/analyzer/capture/child/session.py(81): say", start + 500_000, 1_000_000)
        if builtin:
            ours.frame("<built-in function write>", start + 510_000, 980_000)

    assert ask(RULE, ours.trace(tmp_path)) == []


@pytest.mark.parametrize(("gap_ns", "found"), [(390_000, False), (410_000, True)])
def test_it_speaks_from_a_tenth_of_the_step_on(tmp_path: Path, gap_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_4_ms([gap_ns] * 4).trace(tmp_path))) is found


def test_many_short_ways_from_op_to_op_are_no_gap(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in range(0, 4 * STEP, STEP):
        built.step(start // STEP, start, STEP)
        for place in range(16):
            built.op("aten::relu", start + place * 250_000, 50_000)

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize("inside", [SINGLE, "torch.tensor of a list of arrays", "DataLoader: workers start"])
def test_what_other_rules_speak_of_is_left_to_them(tmp_path: Path, inside: str) -> None:
    assert ask(RULE, steps_of_4_ms([1_000_000] * 4, inside).trace(tmp_path)) == []


def test_a_backward_pass_on_another_thread_is_no_python(tmp_path: Path) -> None:
    built = steps_of_4_ms([1_000_000] * 4)
    for start in range(0, 4 * STEP, STEP):
        built.event("cpu_op", "autograd::engine::evaluate_function: X", start + 500_000, 1_000_000, tid=2, args={})

    assert ask(RULE, built.trace(tmp_path)) == []


def with_a_gpu(folder: Path, kernel_ns: int) -> Trace:
    """The gap of 1 ms lies behind the launch of a kernel."""
    built = steps_of_4_ms([1_000_000] * 4)
    for start in range(0, 4 * STEP, STEP):
        built.launch("gemm", (start + 400_000, 10_000), (start + 420_000, kernel_ns))
    return built.trace(folder)


def test_on_a_gpu_only_the_time_that_it_idles_counts(tmp_path: Path) -> None:
    [seen] = ask(RULE, with_a_gpu(tmp_path, kernel_ns=100_000))

    # three kernels 4 ms apart: it idles for the gaps of two of the three judged steps, from 0.52 to 1.5 ms
    assert seen.evidence["share"] == pytest.approx(2 * 980_000 / 8_100_000, rel=0.05)
    assert "GPU" in seen.message
    assert seen.edit is None


def test_python_behind_a_busy_gpu_is_free(tmp_path: Path) -> None:
    assert ask(RULE, with_a_gpu(tmp_path, kernel_ns=3_900_000)) == []
