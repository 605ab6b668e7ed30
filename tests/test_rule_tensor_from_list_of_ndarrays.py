"""PYB005: a list of NumPy arrays becomes a tensor number by number, in no op at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.facts import ArraysFacts
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.tensor_from_list_of_ndarrays import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

RANGE = "torch.tensor of a list of arrays"


def line(number: int = 17, elements: int = 1000, calls: int = 4) -> ArraysFacts:
    """32 arrays become a tensor at this line of model.py."""
    return ArraysFacts(
        range_name=RANGE, call="torch.tensor", file="model.py", line=number, calls=calls, arrays=32, elements=elements
    )


def seen_by_us(folder: Path, took_ns: int, *lines: ArraysFacts) -> Trace:
    """Four steps of 1 ms; each begins with one such range, then an op."""
    built = TraceBuilder()
    for start in range(0, 4_000_000, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.annotation(RANGE, start + 1_000, took_ns)
        built.op("aten::linear", start + 900_000, 50_000)
    return observed(built.trace(folder), arrays=lines or (line(),), copy_bytes_per_s=3.2e9)


def with_stacks(folder: Path, in_op_ns: int) -> Trace:
    """Somebody else's recording of one step of 1 ms with Python stacks: 600 µs in torch.tensor, a part of it in ops."""
    built = TraceBuilder().step(0, 0, 1_000_000)
    built.frame("train.py(30): batch", 0, 800_000)
    built.frame("<built-in method tensor of type object at 0x7f>", 100_000, 600_000)
    built.op("aten::copy_", 150_000, in_op_ns)
    built.op("aten::linear", 900_000, 50_000)
    return built.trace(folder)


def test_the_calls_that_our_capture_saw_are_found_with_their_line(tmp_path: Path) -> None:
    trace = seen_by_us(tmp_path, 500_000)

    [seen] = ask(RULE, trace)

    assert (seen.where.file, seen.where.line, seen.where.op) == ("model.py", 17, "torch.tensor")
    assert seen.evidence == {"calls": 3, "share": pytest.approx(0.5), "arrays": 32, "numbers": 1000}
    assert seen.intervals_ns[0] == (1_001_000, 1_501_000)
    [outcome] = examine(trace, Found((RULE,))).outcomes
    # 32 000 bytes at 3.2 GB/s are 10 µs of the 500 µs, which stay
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(490_000, abs=2)


def test_of_several_lines_the_one_of_most_numbers_is_named(tmp_path: Path) -> None:
    [seen] = ask(RULE, seen_by_us(tmp_path, 500_000, line(17), line(40, elements=900, calls=9)))

    assert seen.where.line == 40


@pytest.mark.parametrize(("took_ns", "found"), [(19_000, False), (21_000, True)])
def test_it_speaks_from_a_fiftieth_of_the_step_on(tmp_path: Path, took_ns: int, found: bool) -> None:
    assert bool(ask(RULE, seen_by_us(tmp_path, took_ns))) is found


def test_what_copying_takes_anyway_is_not_at_stake(tmp_path: Path) -> None:
    # 1 000 000 numbers: 32 MB at 3.2 GB/s are 10 ms, more than the call took
    [seen] = ask(RULE, seen_by_us(tmp_path, 500_000, line(elements=1_000_000)))

    assert seen.edit is not None
    assert set(seen.edit.keep.values()) == {1.0}


def test_stacks_show_it_in_the_recordings_of_others(tmp_path: Path) -> None:
    [seen] = ask(RULE, with_stacks(tmp_path, in_op_ns=20_000))

    assert (seen.where.file, seen.where.line) == ("train.py", 30)
    assert seen.evidence["share"] == pytest.approx(0.6)
    assert "list" in seen.message


def test_an_array_that_is_copied_as_a_whole_is_no_conversion(tmp_path: Path) -> None:
    assert ask(RULE, with_stacks(tmp_path, in_op_ns=500_000)) == []


def test_the_times_of_our_second_recording_are_not_believed(tmp_path: Path) -> None:
    plain = TraceBuilder().step(0, 0, 1_000_000).op("aten::linear", 900_000, 50_000).trace(tmp_path)

    assert ask(RULE, plain.with_capture(None, with_stacks(tmp_path, in_op_ns=0))) == []
