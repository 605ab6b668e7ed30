"""Profiles of XLA (JAX, TensorFlow) built small, as JSON and as protocol buffers, with an encoder of a few lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def _named(pid: int, tid: int | None, name: str) -> dict[str, Any]:
    what = {"name": "process_name"} if tid is None else {"name": "thread_name", "tid": tid}
    return {"ph": "M", "pid": pid, **what, "args": {"name": name}}


def _slice(pid: int, tid: int, times_us: tuple[float, float], name: str, **arguments: str) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "ts": times_us[0], "dur": times_us[1], "name": name, "args": arguments}


def jax_gpu_json(folder: Path) -> Path:
    """One GPU: copy 2.0-2.5 us, fusions 3.0-5.0 and 4.5-6.0 us on two streams; three lines repeat the fusions."""
    copy = "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"
    events = [
        _named(1, None, "/device:GPU:0 NVIDIA H100"), _named(1, 7, "Stream #7(MemcpyH2D,Compute)"),
        _named(1, 8, "Stream #8(Compute)"), _named(1, 20, "XLA Ops"), _named(1, 21, "XLA Modules"),
        _named(1, 22, "Steps"), _named(701, None, "/host:CPU"), _named(701, 30, "python"),
        _slice(701, 30, (0.5, 9.0), "train", step_num="3"),
        _slice(701, 30, (0.6, 8.0), "$model.py:12 forward"),
        _slice(701, 30, (1.0, 0.2), "cuLaunchKernel", correlation_id="11"),
        _slice(1, 7, (2.0, 0.5), "MemcpyH2D", correlation_id="10", memcpy_details=copy),
        _slice(1, 7, (3.0, 2.0), "fusion.1", correlation_id="11", kernel_details="regs:32 grid:8,1,1 block:128,1,1"),
        _slice(1, 8, (4.5, 1.5), "fusion.2", correlation_id="12"),
        _slice(1, 20, (3.0, 2.0), "fusion.1"), _slice(1, 20, (4.5, 1.5), "fusion.2"),
        _slice(1, 21, (3.0, 3.0), "jit_step"), _slice(1, 22, (3.0, 3.0), "3"),
        {},
    ]  # fmt: skip
    path = folder / "perfetto_trace.json.gz"
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protocol buffer: numbers as varints, texts and messages with their length."""
    found = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            found += _varint(number << 3) + _varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            found += _varint(number << 3 | 2) + _varint(len(content)) + content
    return bytes(found)


def _plane(
    name: str, lines: Sequence[bytes], events: Mapping[int, str], stats: Mapping[int, str], *more: bytes
) -> bytes:
    tables = [
        (number, message((1, key), (2, message((1, key), (2, text)))))
        for number, table in ((4, events), (5, stats))
        for key, text in table.items()
    ]
    return message((2, name), *((3, line) for line in lines), *tables, *((6, stat) for stat in more))


def _line(number: int, name: str, events: Sequence[bytes]) -> bytes:
    return message((1, number), (2, name), (3, 1000), *((4, event) for event in events))


def _event(key: int, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
    return message((1, key), (2, offset_ps), (3, duration_ps), *((4, stat) for stat in stats))


def tpu_xplane(folder: Path) -> Path:
    """A TPU: no streams, its work on the line "XLA Ops", in picoseconds. Lines begin at 1000 ns.

    fusion 0-1500 ps (1000-1001 ns), copy 1500-2999 ps (1001-1002 ns), and one host call with a 64-bit id.
    """
    ops = _line(1, "XLA Ops", [_event(1, 0, 1500, message((1, 1), (4, 7))), _event(2, 1500, 1499)])
    steps = _line(2, "Steps", [_event(3, 0, 2999)])
    device = _plane("/device:TPU:0", [ops, steps], {1: "fusion", 2: "copy", 3: "0"}, {1: "run_id", 2: "core_count"},
                    message((1, 2), (4, 2)))  # fmt: skip
    called = _event(1, 500, 1_000_000, message((1, 1), (3, (1 << 64) - 3)))
    host = _plane("/host:CPU", [_line(9, "main", [called])], {1: "ExecuteOnDevice"}, {1: "run_id"})
    start = message((1, 1), (3, 1_750_000_000_000_000_000))
    environment = _plane("Task Environment", [], {}, {1: "profile_start_time"}, start)
    path = folder / "tpu.xplane.pb"
    path.write_bytes(message((1, device), (1, host), (1, environment), (3, "2 events were dropped"), (4, "worker")))
    return path
