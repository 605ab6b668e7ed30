"""What a vectorised function costs on a CPU: the unit that the arithmetic of generated loops and kernels is told in."""

from __future__ import annotations

from profiler_doctor.analyzer.trace import Trace

TYPICAL_NS = {
    "exp float": 0.3, "tanh float": 1.6, "erf float": 0.5, "exp double": 0.8, "tanh double": 3.5, "erf double": 2.6,
}  # fmt: skip
"""Of one element on one thread with AVX-512, for recordings without a measured price."""


def price_ns(trace: Trace, function: str) -> float:
    """Nanoseconds an element takes of `exp float`, `tanh double`, … on all threads of the program together, as our
    capture measured it on the machine."""
    facts = trace.facts
    measured = facts.function_ns if facts else {}
    return measured.get(function, TYPICAL_NS[function]) / max(facts.threads if facts else 1, 1)
