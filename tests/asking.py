"""Ask one rule about one trace, by its own limits or by others."""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Rule, Sighting
from profiler_doctor.analyzer.trace import Trace


def ask(rule: Rule, trace: Trace, **limits: float) -> list[Sighting]:
    """What the rule sees, given that the trace has what it needs."""
    assert set(rule.needs) <= trace.has, f"{rule.code} would be skipped: {set(rule.needs) - trace.has}"
    defaults = {name: threshold.value for name, threshold in rule.thresholds.items()}
    return list(rule.find(trace, {**defaults, **limits}))
