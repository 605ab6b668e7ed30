"""What a vectorised exp, tanh and erf cost on this machine, for what stays of an activation when its ops are fused.

torch's own activations are loops that hold nothing but such a function, compiled from the same library that generated
code calls. The single op of that name may be another, much faster one (MKL's), so that it does not tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

ELEMENTS = 1 << 14
"""Few enough to lie in a core's cache and to be left to one thread."""
TIMES = 12
"""Each, of which the quickest counts: other programs only ever make it slower. All of them take some 3 ms."""


def function_ns(torch: Any, device: str) -> dict[str, float]:
    """Nanoseconds an element takes on one thread, beyond reading and writing it: `exp float`, `tanh double`, …

    Empty where the recorded work ran on another device than a CPU.
    """
    if device != "cpu":
        return {}
    functional, found = torch.nn.functional, {}
    with torch.no_grad():
        for kind, dtype in (("float", torch.float32), ("double", torch.float64)):
            given = torch.linspace(-3.0, 3.0, ELEMENTS, dtype=dtype, device="cpu")
            plain = _best_ns(partial(torch.relu, given))
            for name, call in (
                ("exp", partial(functional.silu, given)),
                ("tanh", partial(functional.gelu, given, approximate="tanh")),
                ("erf", partial(functional.gelu, given)),
            ):
                found[f"{name} {kind}"] = max(_best_ns(call) - plain, 0) / ELEMENTS
    return found


def _best_ns(call: Callable[[], Any]) -> int:
    best_ns = 0
    for _ in range(TIMES):
        begun_ns = time.perf_counter_ns()
        call()
        took_ns = time.perf_counter_ns() - begun_ns
        best_ns = min(best_ns or took_ns, took_ns)
    return best_ns
