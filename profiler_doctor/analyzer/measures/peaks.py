"""What each known device can do at most: bytes and operations per second, as its maker's data sheet states them.

A device is known by its name, its memory and its multiprocessors
together, because one name stands for several boards, and a slice of a board (MIG, a partition) keeps the board's name;
whatever fits none in peaks.toml has no peaks here, and nothing is guessed from a relative.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.trace import Device, Trace, measure

TABLE = Path(__file__).with_name("peaks.toml")
KINDS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
SLICE = re.compile(r"\bMIG\b|\bGRID\b|vGPU", re.IGNORECASE)
"""A part of a board, whatever its counts say."""


@dataclass(frozen=True)
class Peak:
    """What one device can do at most. `vector` and `matrix` map a type (see KINDS) to operations per second.

    `matrix` is for products of matrices, which tensor and matrix cores work on; `vector` for all else.
    """

    board: str
    bytes_per_s: float
    vector: Mapping[str, float]
    matrix: Mapping[str, float]
    source: str

    def flops_per_s(self, kind: str, products: bool) -> float | None:
        """Operations per second in a type; None where the device has no unit for it or the sheet does not say."""
        return (self.matrix.get(kind) if products else None) or self.vector.get(kind)


@dataclass(frozen=True)
class Board:
    """One line of the table: how a board is told, and its peaks."""

    name: re.Pattern[str]
    gigabytes: tuple[float, float]
    """The range that its memory falls into, decimal."""
    units: int
    """Multiprocessors or compute units."""
    peak: Peak


@cache
def boards() -> tuple[Board, ...]:
    """The table of peaks."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(_board(entry) for entry in table["board"])


def _board(entry: Mapping[str, Any]) -> Board:
    vector, matrix = _tera(entry["vector"]), _tera(entry["matrix"])
    peak = Peak(entry["board"], entry["bandwidth"] * 1e9, vector, matrix, entry["source"])
    low, high = entry["gigabytes"]
    return Board(re.compile(entry["name"]), (low, high), entry["units"], peak)


def _tera(rates: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType({kind: rate * 1e12 for kind, rate in rates.items()})


def peak_of(device: Device) -> Peak | None:
    """What the device can do at most; None unless its name, memory and multiprocessors all fit one known board."""
    if device.memory_bytes is None or device.multiprocessors is None or SLICE.search(device.name):
        return None
    size = device.memory_bytes / 1e9
    fitting = [
        board.peak
        for board in boards()
        if board.name.search(device.name)
        and board.gigabytes[0] <= size <= board.gigabytes[1]
        and board.units == device.multiprocessors
    ]
    return fitting[0] if len(fitting) == 1 else None


def device_of(trace: Trace, number: int) -> Device | None:
    """The properties of the device that an event names.

    ROCm numbers the devices of events and of properties differently; where all properties are alike that is no matter.
    """
    named = [device for device in trace.devices if device.id == number]
    alike = {(device.name, device.memory_bytes, device.multiprocessors) for device in trace.devices}
    if named or len(alike) != 1:
        return named[0] if named else None
    return trace.devices[0]


@measure
def devices(trace: Trace) -> pd.DataFrame:
    """One row per device that the trace describes, and what it can do at most.

    Columns: device, name, multiprocessors and memory_bytes (-1 unknown), board (as the table of peaks knows it, ""
    unknown: then the rest is empty), bytes_per_s, fp64, fp32, tf32, fp16, bf16, fp8 and int8 (matrix operations per
    second without sparsity, NaN where there is no unit for it), source.
    """
    found = []
    for device in trace.devices:
        peak = peak_of(device)
        rates = [(peak.flops_per_s(kind, products=True) if peak else None) for kind in KINDS]
        about = (device.id, device.name, _or_minus_one(device.multiprocessors), _or_minus_one(device.memory_bytes))
        speed = peak.bytes_per_s if peak else None
        found.append((*about, peak.board if peak else "", speed, *rates, peak.source if peak else ""))
    columns = ["device", "name", "multiprocessors", "memory_bytes", "board", "bytes_per_s", *KINDS, "source"]
    return pd.DataFrame(found, columns=columns).astype(dict.fromkeys(["bytes_per_s", *KINDS], "float64"))


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number


DEVICES = Table(name="devices", of=devices)
