"""Run an ONNX graph in ONNX Runtime: time it un-profiled, then let ONNX Runtime profile some runs of it.

What came of it goes to `recorded.json` in the run folder: facts, and the profile's file; or the sentence that says why
there is nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.capture import processors
from profiler_doctor.analyzer.capture.child import onnx_inputs, onnx_session
from profiler_doctor.analyzer.capture.child.onnx_inputs import Unmakeable
from profiler_doctor.analyzer.facts import Facts, OnnxFacts, RootFacts

RECORDED = "recorded.json"
STEADY = 0.05
"""Three runs alike within 5 % are warm."""
MOST_WARM_UP = 50
MOST_TIMED = 200
LEAST_TIMED = 5
TIMING_S = 3.0
"""How long un-profiled runs are timed: the least of `MOST_TIMED` runs and this."""
COLD_RUNS = 2
"""Runs of the profiled session before those that are kept: memory is planned in the first, and used in the second."""
OF_A_RUN = ("model_run", "SequentialExecutor::Execute", "ParallelExecutor::Execute")
LARGEST_KEPT = 512 << 20
"""Bytes of a model whose optimised graph is kept beside the profile; a larger one is not written a second time."""

Times = list[tuple[int, int]]
"""Wall and process CPU time of each run, ns."""


def main(words: Sequence[str]) -> None:
    """`words`: the graph's file, the run folder, how many runs to profile, seconds for all of it, sizes wished for."""
    model, folder, steps, seconds, *wished = words
    try:
        said = recorded(os.path.abspath(model), Path(folder), int(steps), (float(seconds), wished))  # noqa: PTH100
    except Unmakeable as why:
        said = {"refused": str(why)}
    part = Path(folder, f"{RECORDED}.{os.getpid()}.part")
    part.write_text(json.dumps(said), encoding="utf-8")
    part.replace(Path(folder, RECORDED))


def recorded(model: str, folder: Path, steps: int, rest: tuple[float, Sequence[str]]) -> dict[str, object]:
    """`facts` and `profile` as JSON values; `rest`: seconds, and sizes wished for. Raises Unmakeable."""
    seconds, wished = rest
    onnxruntime = onnx_session.runtime()
    import numpy

    end_ns = time.monotonic_ns() + int(seconds * 1e9)
    before = _threads()
    session = onnx_session.opened(onnxruntime, model, {})
    threads = _threads() - before + 1
    arrays, inputs = onnx_inputs.made(numpy, session.get_inputs(), onnx_inputs.wishes(wished))
    cold = _timed(session, arrays, inputs)
    warm_up = _warm_up(session, arrays, end_ns)
    plain = _several(session, arrays, end_ns)
    profile, profiled = _profiled(onnxruntime, model, (folder, arrays, steps))
    ran = onnx_session.who_ran(onnxruntime, model, {}, arrays)
    facts = Facts(
        roots=(_root(model, arrays, len(warm_up) + len(plain) + len(profiled) + 1),),
        step_source="runs of the graph",
        device="cuda" if any(name.startswith(("CUDA", "Tensorrt")) for name in ran) else "cpu",
        cpus=processors.usable_cpus(),
        threads=threads,
        cpu_flags=processors.cpu_flags(),
        warmup_steps=1 + len(warm_up),
        cold_step_ns=cold[0],
        profiled_step_ns=tuple(wall for wall, _ in profiled),
        step_ns=tuple(wall for wall, _ in plain),
        step_cpu_ns=tuple(cpu for _, cpu in plain),
        source_folder=str(Path(model).parent),
        onnx=OnnxFacts(
            runtime=str(onnxruntime.__version__),
            available=tuple(onnxruntime.get_available_providers()),
            ran=dict(ran),
            inputs=inputs,
        ),
    )
    return {"facts": asdict(facts), "profile": profile.name}


def _timed(session: Any, arrays: Mapping[str, Any], words: str = "") -> tuple[int, int]:
    cpu_ns, wall_ns = time.process_time_ns(), time.perf_counter_ns()
    onnx_session.run_once(session, arrays, words)
    return time.perf_counter_ns() - wall_ns, time.process_time_ns() - cpu_ns


def _warm_up(session: Any, arrays: Mapping[str, Any], end_ns: int) -> Times:
    """Run until three runs are alike, for a quarter of the time at most."""
    until_ns = time.monotonic_ns() + max(0, end_ns - time.monotonic_ns()) // 4
    times: Times = []
    while len(times) < MOST_WARM_UP and time.monotonic_ns() < until_ns:
        times.append(_timed(session, arrays))
        last = [wall for wall, _ in times[-3:]]
        if len(last) == 3 and max(last) - min(last) < STEADY * min(last):
            break
    return times


def _several(session: Any, arrays: Mapping[str, Any], end_ns: int) -> Times:
    now_ns = time.monotonic_ns()
    until_ns = now_ns + min(int(TIMING_S * 1e9), max(0, end_ns - now_ns) // 2)
    times: Times = []
    while len(times) < LEAST_TIMED or (len(times) < MOST_TIMED and time.monotonic_ns() < until_ns):
        times.append(_timed(session, arrays))
    return times


def _profiled(onnxruntime: Any, model: str, rest: tuple[Path, Mapping[str, Any], int]) -> tuple[Path, Times]:
    """ONNX Runtime's profile of warm runs, one more than `steps`, and the times of all but that one."""
    folder, arrays, steps = rest
    settings: dict[str, Any] = {"enable_profiling": True, "profile_file_prefix": str(folder / "observe")}
    if Path(model).stat().st_size <= LARGEST_KEPT:
        settings["optimized_model_filepath"] = str(folder / "optimized.onnx")
    session = onnx_session.opened(onnxruntime, model, settings)
    times = [_timed(session, arrays) for _ in range(COLD_RUNS + 1 + steps)][-steps:]
    profile = Path(session.end_profiling())
    _without_cold_runs(profile)
    return profile, times


def _without_cold_runs(profile: Path) -> None:
    """Take the first runs out of the profile: it has no switch, and they are no steps."""
    events = json.loads(profile.read_text(encoding="utf-8"))
    runs = sorted(event["ts"] for event in events if event["name"] == "model_run")
    since = runs[min(COLD_RUNS, len(runs) - 1)]
    before = [event["ts"] < since and (event["cat"] == "Node" or event["name"] in OF_A_RUN) for event in events]
    kept = [event for event, cold in zip(events, before, strict=True) if not cold]
    part = profile.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(kept), encoding="utf-8")
    part.replace(profile)


def _root(model: str, arrays: Mapping[str, Any], calls: int) -> RootFacts:
    floats = [array for array in arrays.values() if array.dtype.kind == "f"]
    return RootFacts(
        name=Path(model).name,
        calls=calls,
        training=False,
        grad_enabled=False,
        output_requires_grad=False,
        autocast=None,
        parameter_bytes=Path(model).stat().st_size,
        parameter_dtypes=(),
        input_ranks=tuple(sorted({array.ndim for array in floats})),
        signatures=(" ".join("x".join(map(str, array.shape)) or "scalar" for array in arrays.values()),),
        compiled=False,
    )


def _threads() -> int:
    """Of this process, as the kernel counts them: those that a session starts are what it computes with."""
    tasks = Path("/proc/self/task")
    return sum(1 for _ in tasks.iterdir()) if tasks.is_dir() else threading.active_count()


if __name__ == "__main__":
    main(sys.argv[1:])
