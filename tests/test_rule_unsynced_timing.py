"""MSR006: the program's own timing measures something else than it seems to."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from profiler_doctor.analyzer.measures.timers import timed_parts
from profiler_doctor.rules.unsynced_timing import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

US = 1000
BENCH = """\
    import time

    def bench(n):
        t0 = time.perf_counter()
        for _ in range(n):
            model(x)
        dt = time.perf_counter() - t0
        print(n / dt)

    {before}
    bench(100)
    """


def reading(built: TraceBuilder, at: int, clock: str = "<built-in function perf_counter>") -> TraceBuilder:
    return built.frame(clock, at, US)


def timed(wait: bool = False, caller: str = "bench.py(3): bench", kernel_us: int = 500) -> TraceBuilder:
    """A function that reads the clock at 10 us and 100 us, and between them launches a kernel."""
    built = TraceBuilder().frame(caller, 0, 2000 * US)
    reading(built, 10 * US).launch("k", (20 * US, 5 * US), (30 * US, kernel_us * US))
    if wait:
        built.call("cudaDeviceSynchronize", 40 * US, kernel_us * US)
    return reading(built, (600 if wait else 100) * US)


def test_work_that_goes_on_after_the_second_reading_was_not_timed(tmp_path: Path) -> None:
    [seen] = ask(RULE, timed().trace(tmp_path))

    assert (seen.where.file, seen.where.line) == ("bench.py", 3)
    assert seen.evidence["read_ns"] == 89 * US  # from the end of one reading to the start of the other
    assert seen.evidence["pending_ns"] == 430 * US
    assert not seen.grave


def test_with_a_wait_before_the_second_reading_all_is_well(tmp_path: Path) -> None:
    assert ask(RULE, timed(wait=True).trace(tmp_path)) == []


def test_work_that_has_ended_by_then_was_timed(tmp_path: Path) -> None:
    assert ask(RULE, timed(kernel_us=60).trace(tmp_path)) == []


def test_readings_of_libraries_are_their_own_affair(tmp_path: Path) -> None:
    assert ask(RULE, timed(caller="/v/site-packages/tqdm/std.py(3): update").trace(tmp_path)) == []


def test_readings_without_launches_between_them_time_no_gpu(tmp_path: Path) -> None:
    built = TraceBuilder().frame("bench.py(3): bench", 0, 2000 * US)

    assert ask(RULE, reading(reading(built, 10 * US), 100 * US).trace(tmp_path)) == []


@pytest.mark.parametrize(
    ("before", "warm"),
    [("pass", False), ("model(x)", True), ("bench(3)", True), ("for _ in range(2): bench(2)", True)],
    ids=["cold", "called before", "run twice", "run in a loop"],
)
def test_a_loop_is_timed_cold_where_nothing_in_it_was_called_before(before: str, warm: bool) -> None:
    text = dedent(BENCH).format(before=before)
    moved = f"{before}\n{text}" if before == "model(x)" else text

    [part] = timed_parts(moved)

    assert part.loops
    assert part.warm is warm


def test_a_timed_call_that_waits_says_so() -> None:
    [part] = timed_parts("t = time.time()\ny = model(x)\ntorch.cuda.synchronize()\nprint(time.time() - t)\n")

    assert part.waits
    assert not part.loops


def test_each_turn_timed_by_itself_is_not_cold() -> None:
    text = "for i in range(9):\n    t = perf_counter()\n    for b in data:\n        m(b)\n    e = perf_counter() - t\n"

    assert [part.warm for part in timed_parts(text)] == [True]


def test_source_that_is_no_python_holds_no_timer() -> None:
    assert timed_parts("def (:") == ()


@pytest.mark.parametrize(("cold_us", "found"), [(149, False), (900, True)])
def test_a_cold_loop_is_named_where_the_first_step_was_slow(tmp_path: Path, cold_us: int, found: bool) -> None:
    (tmp_path / "bench.py").write_text(dedent(BENCH).format(before="pass"), encoding="utf-8")
    trace = TraceBuilder().step(0, 0, 100 * US).frame("bench.py(3): bench", 0, 90 * US).trace(tmp_path)
    facts = {"cold_step_ns": cold_us * US, "step_ns": (100 * US,) * 5, "source_folder": str(tmp_path)}

    seen = ask(RULE, observed(trace, **facts))

    assert bool(seen) is found
    assert [(sighting.where.file, sighting.where.line) for sighting in seen] == ([("bench.py", 4)] if found else [])


@pytest.mark.parametrize("more", [{"optimizer_steps": 9}, {"step_ns": (100 * US,) * 400}], ids=["trains", "long"])
def test_a_loop_that_trains_or_is_long_may_be_timed_as_a_whole(tmp_path: Path, more: dict[str, object]) -> None:
    (tmp_path / "bench.py").write_text(dedent(BENCH).format(before="pass"), encoding="utf-8")
    trace = TraceBuilder().step(0, 0, 100 * US).frame("bench.py(3): bench", 0, 90 * US).trace(tmp_path)
    facts = {"cold_step_ns": 900 * US, "step_ns": (100 * US,) * 5, "source_folder": str(tmp_path)}

    assert ask(RULE, observed(trace, **{**facts, **more})) == []
