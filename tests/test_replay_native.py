"""The replay's loop in C gives what the one in Python gives, and refuses what would lead it out of its columns."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.replay import change
from profiler_doctor.analyzer.replay.play import Played
from profiler_doctor.analyzer.replay.score import Score, score_of
from tests.trace_builder import TraceBuilder

play = import_module("profiler_doctor.analyzer.replay.play")  # the package has a function of this name
needs_it = pytest.mark.skipif(play.NATIVE is None, reason="the accelerators were not built here")
TRACES = ("hta_a100_nccl_resnet", "hta_a100_alexnet", "tracelens_h100_bert_small", "tracelens_h100_qwen05b")


def _both(score: Score, monkeypatch: pytest.MonkeyPatch) -> tuple[Played, Played]:
    native = play.play(score)
    with monkeypatch.context() as patch:
        patch.setattr(play, "NATIVE", None)
        return native, play.play(score)


@needs_it
@pytest.mark.parametrize("name", TRACES)
def test_both_loops_end_every_call_and_every_kernel_at_the_same_nanosecond(
    name: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = read(shared / "traces" / f"{name}.json.gz")
    score = score_of(trace)
    assert score is not None
    some = dict.fromkeys(score.works.row[::3].tolist(), 0.0) | dict.fromkeys(score.works.row[1::3].tolist(), 0.5)

    for edit in (Edit(), Edit(keep=some), Edit(no_launch_gaps=True), Edit(free=tuple(score.calls.row.tolist()))):
        native, plain = _both(change.edited(trace, score, edit), monkeypatch)
        assert np.array_equal(native.call_end_ns, plain.call_end_ns)
        assert np.array_equal(native.work_end_ns, plain.work_end_ns)
        assert native.total_ns == plain.total_ns


@needs_it
def test_a_place_outside_its_column_is_refused(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 100_000).launch("first", (10_000, 2_000), (14_000, 5_000))
    score = score_of(built.trace(tmp_path))
    assert score is not None
    good = play._columns(score)
    calls, works = len(good.follows), len(good.stream)
    wrong = {"follows": 7, "turns": 9, "stream": 3, "call": 5, "waits_for": 4, "awaiting": 2}

    for name, place in wrong.items():
        bad = good._replace(**{name: np.full_like(getattr(good, name), place)})
        with pytest.raises(ValueError, match="outside its column"):
            play.NATIVE.play((*bad, np.zeros(calls, np.int64), np.zeros(works, np.int64)), 1)
    with pytest.raises(ValueError, match="outside its column"):
        play.NATIVE.play((*good, np.zeros(calls, np.int64), np.zeros(works - 1, np.int64)), 1)


def test_the_loop_in_python_is_there_without_the_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = TraceBuilder().step(1, 0, 100_000).launch("first", (10_000, 2_000), (14_000, 5_000))
    score = score_of(built.trace(tmp_path))
    assert score is not None
    monkeypatch.setattr(play, "NATIVE", None)

    assert play.play(score).work_end_ns.tolist() == [19_000]
