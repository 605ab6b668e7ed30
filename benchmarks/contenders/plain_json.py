"""The plain way to the same columns: json.loads, and every field and argument of every event into an array."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

CODES = ("ph", "cat", "name", "thread")
TIMES = ("ts", "dur")


def run(path: Path) -> int:
    return columns(path, float, whole_ns)


def columns(path: Path, fraction: Callable[[str], object], in_ns: Callable[[list[object]], np.ndarray]) -> int:
    """Read a .json.gz with `fraction` for numbers with a point. Returns how many events it has."""
    text = gzip.decompress(path.read_bytes())
    events = json.loads(text, parse_float=None if fraction is float else fraction)["traceEvents"]
    core: dict[str, list[object]] = {key: [] for key in (*CODES, *TIMES)}
    arguments: dict[str, tuple[list[int], list[object]]] = defaultdict(lambda: ([], []))
    for row, event in enumerate(events):
        for key in ("ph", "cat", "name", *TIMES):
            core[key].append(event.get(key))
        core["thread"].append((event.get("pid"), event.get("tid")))
        for name, value in (*event.get("args", {}).items(), ("id", event.get("id"))):
            if value is not None:
                rows, values = arguments[name]
                rows.append(row)
                values.append(value)
    found = {key: interned(core[key]) for key in CODES} | {key: in_ns(core[key]) for key in TIMES}
    sparse = {name: (np.array(rows), settled(values)) for name, (rows, values) in arguments.items()}
    return len(found["ph"]) if sparse else 0


def interned(values: list[object]) -> np.ndarray:
    table: dict[object, int] = {}
    return np.array([table.setdefault(value, len(table)) for value in values], np.int32)


def whole_ns(microseconds: list[object]) -> np.ndarray:
    """A double tells every nanosecond of the files measured here, whose times are relative to a base."""
    times = np.array([-1 if time is None else time for time in microseconds], np.float64)
    return np.rint(times * 1000).astype(np.int64)


def settled(values: list[object]) -> np.ndarray:
    """Numbers as they are, texts and lists as codes of their text."""
    if all(isinstance(value, int | float) for value in values):
        return np.array(values)
    return interned([value if isinstance(value, str) else json.dumps(value, default=float) for value in values])
