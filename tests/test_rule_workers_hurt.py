"""DAT004: workers fetch what lies in memory, and the step waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.workers_hurt import RULE
from tests.asking import ask
from tests.loading import SINGLE, WORKERS, loader
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def steps_of_1_ms(folder: Path, fetch_ns: int, name: str = WORKERS) -> Trace:
    built = TraceBuilder()
    for start in range(0, 4_000_000, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000).annotation(name, start, fetch_ns)
        built.op("aten::mm", start + fetch_ns, 900_000 - fetch_ns)
    return built.trace(folder)


def test_waiting_for_workers_over_data_in_memory_is_advice_to_try(tmp_path: Path) -> None:
    [seen] = ask(RULE, observed(steps_of_1_ms(tmp_path, 300_000), loaders=(loader(workers=2),)))

    assert seen.edit is None
    assert seen.evidence == {"share": pytest.approx(0.3), "workers": 2, "fetches": 3}
    assert (seen.where.file, seen.where.line) == ("data.py", 9)
    assert "2 worker processes" in seen.message


@pytest.mark.parametrize("facts", [{"workers": 0}, {"in_memory": False, "workers": 2}], ids=["none", "not in memory"])
def test_other_loaders_are_left_in_peace(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert ask(RULE, observed(steps_of_1_ms(tmp_path, 300_000), loaders=(loader(**facts),))) == []


def test_fetches_in_the_programs_own_process_are_not_the_workers(tmp_path: Path) -> None:
    facts = (loader(workers=2), loader(dataset="Other"))

    assert ask(RULE, observed(steps_of_1_ms(tmp_path, 300_000, SINGLE), loaders=facts)) == []


@pytest.mark.parametrize(("fetch_ns", "found"), [(99_000, False), (101_000, True)])
def test_it_speaks_from_a_tenth_of_the_step_on(tmp_path: Path, fetch_ns: int, found: bool) -> None:
    assert bool(ask(RULE, observed(steps_of_1_ms(tmp_path, fetch_ns), loaders=(loader(workers=1),)))) is found
