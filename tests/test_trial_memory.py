"""A trial's sides keep memory alike, and one that eats the machine's memory is told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from profiler_doctor.analyzer import trial_memory
from profiler_doctor.analyzer.trial_memory import KEEPING, MemoryWatch, keeping

GIGABYTE = 1 << 30


@contextmanager
def _holding(megabytes: int) -> Iterator[int]:
    """A process whose child holds that much memory."""
    eater = f"held = bytearray({megabytes} << 20); print(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {eater!r}])"
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def _watch(pid: int, monkeypatch: pytest.MonkeyPatch, *spare: int) -> MemoryWatch:
    """A watch on a machine that can spare the first amount when it begins, and the last one from then on."""
    left = list(spare)
    monkeypatch.setattr(trial_memory, "_spare", lambda: left.pop(0) if len(left) > 1 else left[0])
    return MemoryWatch(pid)


def test_a_process_tree_beyond_its_share_is_told_with_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    with _holding(300) as pid:
        assert _watch(pid, monkeypatch, 10 * GIGABYTE).excess() is None
        excess = _watch(pid, monkeypatch, 200 << 20, 10 * GIGABYTE).excess()
    assert excess is not None
    assert excess.startswith("it took 0.3 GB of memory")


def test_a_machine_that_runs_out_is_a_reason_only_against_a_process_that_holds_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _holding(300) as large, _holding(1) as small:
        assert _watch(large, monkeypatch, 10 * GIGABYTE, 1 << 20).excess() is not None
        assert _watch(small, monkeypatch, 10 * GIGABYTE, 1 << 20).excess() is None


def test_it_does_not_look_again_at_once_and_an_ended_process_is_no_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    with _holding(300) as pid:
        watch = _watch(pid, monkeypatch, 200 << 20)
        assert watch.excess() is not None
        assert watch.excess() is None
        later = _watch(pid, monkeypatch, 200 << 20)
    assert later.excess() is None


def test_memory_is_kept_alike_unless_somebody_chose_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_ARENA_MAX", "LD_PRELOAD", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert keeping({}, {"OMP_NUM_THREADS": "1"}) == KEEPING
    assert keeping({}, {"LD_PRELOAD": "libjemalloc.so"}) == {}
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert keeping({}) == {}
