"""Profiles that ONNX Runtime writes (`enable_profiling`): a list of Session, Node and in some builds Kernel events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.formats._blocks import Slice, Table, ThreadKey, block_of
from profiler_doctor.analyzer.formats._documents import written
from profiler_doctor.analyzer.formats._holds import missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.formats._times import exact_ns
from profiler_doctor.analyzer.kinds import Format, Has
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Events, Trace

MARK = re.compile(rb'"cat"\s*:\s*"(?:Session|Node)"')
PARTS = ("_kernel_time", "_fence_before", "_fence_after")
RUN = "model_run"
MOST_EVENTS = 1_000_000
"""ONNX Runtime stops recording there, without a word in the file."""
HAND_OVER = re.compile(r"CUDA|Tensorrt|ROCM|MIGraphX|Dml|WebGpu|CANN|JsExecution", re.IGNORECASE)
"""Execution providers that hand a node to a device and return before it is done."""


def read_ort(path: Path) -> Trace:
    """The trace in an ONNX Runtime profile.

    A node's kernel_time is a cpu_op named after its operator, its fences are of category `ort_fence`, model_run is a
    step, everything else of the session an annotation. Times are microseconds since the profiler's start.
    """
    found = written(path, None)
    complete = [event for event in found.events if event.get("ph") == "X"]
    table, step = Table(), count()
    grouped: dict[str, list[Slice]] = {}
    for event in sorted(complete, key=lambda event: exact_ns(event.get("ts")) or 0):
        category, slice_ = _slice(event, step)
        grouped.setdefault(category, []).append(slice_)
    for category, slices in grouped.items():
        table.add(block_of(category, slices))
    events = table.events(path)
    notes = (*found.health, *table.notes(), *_notes(complete, grouped), *missing_gpu_work(events))
    return Trace(
        events=events, source=str(path), format="ort", producer="ONNX Runtime", health=notes, has=_has(events, notes)
    )


def _slice(event: Mapping[str, Any], step: Iterable[int]) -> tuple[str, Slice]:
    arguments = event.get("args")
    arguments = dict(arguments) if isinstance(arguments, dict) else {}
    start, duration = exact_ns(event.get("ts")), exact_ns(event.get("dur"))
    start = 1 << 62 if start is None else start
    category, name, more = _named(event, arguments, step)
    end = start if duration is None else start + duration
    return category, Slice(name, _thread(event), start, end, {**_plain(arguments), **more})


def _named(
    event: Mapping[str, Any], arguments: Mapping[str, Any], step: Iterable[int]
) -> tuple[str, str, Mapping[str, object]]:
    category, name = event.get("cat"), str(event.get("name", ""))
    if category == "Node":
        part = next((part for part in PARTS if name.endswith(part)), "")
        kind = "ort_fence" if part.startswith("_fence") else "cpu_op"
        operator = str(arguments.get("op_name") or name.removesuffix(part) or "unnamed")
        return kind, operator, {"Node name": name.removesuffix(part), **_shapes(arguments)}
    if category == "Kernel":
        return _work(name), name, {"device": 0, "stream": arguments.get("stream"), **_launch(arguments)}
    if category == "Api":
        return "cuda_runtime", name, {"correlation": arguments.get("correlation_id")}
    if name == RUN:
        return "user_annotation", f"ProfilerStep#{next(iter(step))}", {"Written name": name}
    return "user_annotation" if category == "Session" else str(category or ""), name, {}


def _work(name: str) -> str:
    kind = name.lower()
    return "gpu_memcpy" if kind.startswith("memcpy") else "gpu_memset" if kind.startswith("memset") else "kernel"


def _launch(arguments: Mapping[str, Any]) -> Mapping[str, object]:
    sizes = {
        which: [_number(arguments[f"{which}_{axis}"]) for axis in "xyz"]
        for which in ("grid", "block")
        if all(f"{which}_{axis}" in arguments for axis in "xyz")
    }
    return {**sizes, "correlation": arguments.get("correlation_id")}


def _shapes(arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """`input_type_shape` ([{"float": [1, 3]}, …]) as kineto's Input Dims and Input type."""
    written = arguments.get("input_type_shape")
    pairs = (
        [pair for entry in written if isinstance(entry, dict) for pair in entry.items()]
        if isinstance(written, list)
        else []
    )
    return {"Input Dims": [dims for _, dims in pairs], "Input type": [kind for kind, _ in pairs]} if pairs else {}


def _plain(arguments: Mapping[str, Any]) -> dict[str, object]:
    """Arguments as they are, whole numbers out of their quotes; what is empty is absent."""
    return {name: _number(value) for name, value in arguments.items() if value != ""}


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19 else value


def _thread(event: Mapping[str, Any]) -> ThreadKey:
    pid, tid = event.get("pid"), event.get("tid")
    return pid if isinstance(pid, int | str) else "", tid if isinstance(tid, int | str) else ""


def _notes(complete: Sequence[Mapping[str, Any]], grouped: Mapping[str, Sequence[Slice]]) -> Iterable[HealthNote]:
    nodes, runs = (
        grouped.get("cpu_op", ()),
        [s for s in grouped.get("user_annotation", ()) if "Written name" in s.arguments],
    )
    away = Counter(str(node.arguments.get("provider", "")) for node in nodes)
    away = Counter({name: number for name, number in away.items() if HAND_OVER.search(name)})
    if away:
        yield _host_times(away, len(nodes), recorded="kernel" in grouped)
    if len(runs) > 1:
        first, others = runs[0], sorted(run.end_ns - run.start_ns for run in runs[1:])
        said = (
            f"The first of {len(runs)} runs is the warm-up ({(first.end_ns - first.start_ns) / 1e6:.3f} ms, the others "
            f"{others[len(others) // 2] / 1e6:.3f} ms in the median): it is kept, and left out of the step's time."
        )
        yield HealthNote(code="WARM-UP", message=said, events=1)
    if len(complete) >= MOST_EVENTS:
        said = f"The profile holds {len(complete)} events: there ONNX Runtime stops recording, so the end is missing."
        yield HealthNote(code="TRUNCATED", message=said, events=1)


def _host_times(away: Counter[str], nodes: int, *, recorded: bool) -> HealthNote:
    who = ", ".join(f"{number} on {name}" for name, number in away.most_common())
    said = (
        f"Of {nodes} node runs {who}: their times are how long the host took to hand the work over, not how long the "
        "device worked on it."
    )
    if recorded:
        return HealthNote(code="HOST-TIMES", message=said, events=away.total())
    missing = " No activity of the device was recorded: nothing can be said of its busy or idle time."
    return HealthNote(code="GPU-NOT-RECORDED", message=said + missing, events=away.total())


def _has(events: Events, notes: Sequence[HealthNote]) -> frozenset[Has]:
    on_device = any(note.code in ("GPU-NOT-RECORDED", "HOST-TIMES") for note in notes)
    return what_it_holds(events) - ({Has.CPU_ONLY} if on_device else set())


def _knows(head: bytes, path: Path) -> bool:  # noqa: ARG001  # the kind's signature
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"[") and MARK.search(start) is not None


FORMAT = Format(name="ort", knows=_knows, read=read_ort)
