"""What a cure could bring, worked out by playing the recorded window again without the illness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.model import Stake
from profiler_doctor.analyzer.replay.change import edited
from profiler_doctor.analyzer.replay.edits import merged
from profiler_doctor.analyzer.replay.line import line_stake
from profiler_doctor.analyzer.replay.play import play
from profiler_doctor.analyzer.replay.score import Score, least_ns, score_of
from profiler_doctor.analyzer.replay.steptime import per_step
from profiler_doctor.analyzer.trace import GPU_WORK, Trace, measure

__all__ = ["baseline_error", "stake_of"]

NOT_RECORDED = "no estimate: the GPU's own work, or how it was launched, was not recorded"
TRUSTED_ERROR = 0.02
"""A replay that misses by more says nothing (RULES.md: 32 of 33 public traces are within 0.06 %, the other by 10 %)."""


def stake_of(trace: Trace, edits: Sequence[Edit]) -> Stake:
    """What all `edits` together would bring: T(replay) - T(replay with the edits), per step and as a share of it.

    A trace with linked GPU work is played again, calls and kernels; a trace of CPU work alone loses the host time that
    the edits take from the step's own thread. The share is None, with the reason in `basis`, where the replay cannot
    tell. It never exceeds what is left beside the GPU work that stays.
    """
    edit = merged(edits)
    score = score_of(trace)
    if score is None:
        return Stake(basis=NOT_RECORDED) if _drives_a_device(trace) else line_stake(trace, edit)
    error = baseline_error(trace) or 0.0
    if abs(error) > TRUSTED_ERROR:
        return Stake(basis=f"no estimate: the replay misses the recorded times by {error:+.1%}{_why(score)}")
    return _replayed(trace, score, edit, error)


def baseline_error(trace: Trace) -> float | None:
    """How far the replay of the unchanged window goes wrong, as a share of the window (negative: too early).

    Its largest miss: of the end of any call, of any work, or of the whole. None without linked GPU work: a CPU's line
    of work is not modelled but cut, and has no such error.
    """
    score = score_of(trace)
    if score is None or not score.recorded_ns:
        return None
    return _baseline(trace).worst_ns / score.recorded_ns


@dataclass(frozen=True)
class _Baseline:
    """The replay without any edit: how long it is, and its largest miss, late positive."""

    total_ns: int
    worst_ns: int


@measure
def _baseline(trace: Trace) -> _Baseline:
    score = score_of(trace)
    assert score is not None
    played = play(score)
    misses = (played.call_end_ns - score.calls.end_ns, played.work_end_ns - score.works.end_ns)
    every = np.append(np.concatenate(misses), played.total_ns - score.recorded_ns)
    return _Baseline(played.total_ns, int(every[np.argmax(np.abs(every))]))


def _replayed(trace: Trace, score: Score, edit: Edit, error: float) -> Stake:
    baseline = _baseline(trace).total_ns
    whole = edit == Edit(no_launch_gaps=True)  # several rules ask for this one
    total, least = _without_gaps(trace) if whole else _outcome(trace, score, edit)
    gain = max(baseline - max(total, least), 0)
    share = gain / baseline if baseline else 0.0
    basis = f"up to, by replay of {score.window.words} (replay error {error:+.2%})"
    return per_step(
        trace, Stake(share=share, ns_per_step=gain // score.window.per, basis=basis), least // score.window.per
    )


def _outcome(trace: Trace, score: Score, edit: Edit) -> tuple[int, int]:
    """How long the replay with the edit is, and how long it takes at least."""
    changed = edited(trace, score, edit)
    return play(changed).total_ns, least_ns(changed)


@measure
def _without_gaps(trace: Trace) -> tuple[int, int]:
    score = score_of(trace)
    assert score is not None
    return _outcome(trace, score, Edit(no_launch_gaps=True))


def _drives_a_device(trace: Trace) -> bool:
    kinds = host_calls(trace)["kind"]
    return bool(len(trace.rows(*GPU_WORK)) or kinds.isin(("launch", "graph_launch", "copy", "memset")).any())


def _why(score: Score) -> str:
    late = score.works.unexplained + score.waits.unexplained
    return f", as {late} starts or waits have no recorded cause" if late else ""
