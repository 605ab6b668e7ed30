"""ENV001: more threads compute one op than there are CPUs for this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.rules.thread_oversubscription import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def two_steps() -> TraceBuilder:
    return TraceBuilder().step(0, 0, 1_000_000).step(1, 1_000_000, 1_000_000)


def test_more_threads_than_cpus_are_found_with_both_numbers(tmp_path: Path) -> None:
    [seen] = ask(RULE, observed(two_steps().trace(tmp_path), threads=16, cpus=2))

    assert "16 threads" in seen.message
    assert "2 CPUs" in seen.message
    assert seen.evidence == {"threads": 16, "cpus": 2, "environment": {}}
    assert seen.edit is None
    assert seen.intervals_ns == ((0, 1_000_000), (1_000_000, 2_000_000))


@pytest.mark.parametrize(("threads", "found"), [(1, False), (4, False), (5, True)])
def test_it_speaks_from_one_thread_too_many_on(tmp_path: Path, threads: int, found: bool) -> None:
    assert bool(ask(RULE, observed(two_steps().trace(tmp_path), threads=threads, cpus=4))) is found


def test_the_environment_is_blamed_where_it_asks_for_them(tmp_path: Path) -> None:
    trace = observed(two_steps().trace(tmp_path), threads=8, cpus=1, environment={"OMP_NUM_THREADS": "8"})

    assert "1 CPU; OMP_NUM_THREADS=8 asks for them" in ask(RULE, trace)[0].message


def test_the_script_is_blamed_where_it_asks_against_the_environment(tmp_path: Path) -> None:
    trace = observed(two_steps().trace(tmp_path), threads=8, cpus=2, environment={"OMP_NUM_THREADS": "2"})

    assert "the script asks for them against OMP_NUM_THREADS=2" in ask(RULE, trace)[0].message


def test_unknown_cpus_are_no_accusation(tmp_path: Path) -> None:
    assert ask(RULE, observed(two_steps().trace(tmp_path), threads=8, cpus=0)) == []


def test_where_a_gpu_does_the_work_it_is_another_matter(tmp_path: Path) -> None:
    assert ask(RULE, observed(two_steps().trace(tmp_path), threads=8, cpus=2, device="cuda")) == []


def test_the_line_under_way_with_most_threads_is_named(tmp_path: Path) -> None:
    places = {"threads": ("train.py", 12)}

    [seen] = ask(RULE, observed(two_steps().trace(tmp_path), threads=16, cpus=2, seen_at=places))

    assert (seen.where.file, seen.where.line) == ("train.py", 12)
