"""What torch.compile has done in this process so far, as plain numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def compiled() -> dict[str, int]:
    """`graphs`, `graph_breaks` and `recompiles` since the process began; empty where dynamo was never loaded.

    Dynamo keeps a break under one of two headings, by whether it could resume after it.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    counters: Mapping[str, Mapping[str, int]] = getattr(utils, "counters", {})
    if not counters:
        return {}
    return {
        "graphs": int(counters.get("stats", {}).get("unique_graphs", 0)),
        "graph_breaks": sum(counters.get("graph_break", {}).values()) + sum(counters.get("unimplemented", {}).values()),
        "recompiles": _recompiles(),
    }


def _recompiles() -> int:
    """How many compilations were not the first one of their frame."""
    convert: Any = sys.modules.get("torch._dynamo.convert_frame")
    times: Mapping[object, int] = getattr(convert, "FRAME_COMPILE_COUNTER", {})
    return sum(count - 1 for count in times.values() if count > 1)
