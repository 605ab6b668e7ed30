"""Two finished documents, held against each other by the judgement of a check: the same counters, the same words."""

from __future__ import annotations

from collections.abc import Mapping

from profiler_doctor.analyzer.baseline import EVERYWHERE, Entry, differing
from profiler_doctor.analyzer.counts import Counts
from profiler_doctor.analyzer.gate import Row, compared, not_comparable
from profiler_doctor.analyzer.measuring import ISAS


def rows(before: tuple[Counts, Mapping[str, object]], after: tuple[Counts, Mapping[str, object]]) -> tuple[Row, ...]:
    """Each counter on both sides. A side is what was counted, and the document's environment.

    Findings are left out: those of a document may come and go with its times.
    """
    one, two = (_entry(*side) for side in (before, after))
    found = compared(one.as_counters(), two.as_counters(), {})
    others = differing(one, two.circumstances, time=False)
    return not_comparable(found, "; ".join(others)) if others else found


def _entry(counted: Counts, environment: Mapping[str, object]) -> Entry:
    """As if it stood in a baseline."""
    cpu = environment.get("cpu")
    flags = cpu.get("flags", ()) if isinstance(cpu, Mapping) else ()
    known = {name: environment[name] for name in EVERYWHERE if name in environment}
    isa = next((name for name in ISAS if name in flags), "")
    return Entry(
        command=(), circumstances={**known, "isa": isa}, counters=counted.exact, varying=tuple(sorted(counted.varying))
    )
