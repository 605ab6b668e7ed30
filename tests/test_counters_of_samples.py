"""Counters of each sample are the same in 20 windows of a process and in three processes, one beside a busy one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler_doctor.analyzer.capture.counted import Request
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.counters import Counters
from profiler_doctor.analyzer.engine import Selection
from profiler_doctor.analyzer.measuring import measured
from profiler_doctor.verbs.choice import every_rule
from tests.conftest import ROOT

FEW = ("healthy", "per_sample_loop")
"""Each sample takes a minute or two; all of them are counted by `make test ALL=1`."""
EVERY = sorted((ROOT / "samples").glob("*.py"))
SAMPLES = EVERY if os.environ.get("ALL_SAMPLES") else [path for path in EVERY if path.stem in FEW]
WINDOWS = 20
VARYING = {
    "healthy": {"live_bytes"},
    "slow_loader": {"ops", "item_calls", "allocations", "allocated_bytes", "op_sequence", "op_signature"},
}
"""What cannot repeat: it keeps every result, it draws its augmentations anew. Findings near a limit may vary too."""


def counted(sample: Path, folder: Path) -> Counters:
    request = Request(target=Target(script=str(sample)), end_s=time.monotonic() + 240, windows=WINDOWS)
    return measured(request, folder, every_rule(), Selection()).counters


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_counters_repeat_exactly(sample: Path, tmp_path: Path) -> None:
    first, second = counted(sample, tmp_path / "1"), counted(sample, tmp_path / "2")
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            third = counted(sample, tmp_path / "3")
        finally:
            busy.kill()

    varying = {name for name in first.information if not name.startswith("findings.")}
    assert first.windows == WINDOWS
    assert varying <= VARYING.get(sample.stem, set())
    for other in (second, third):
        assert same(first) == same(other)


def same(counters: Counters) -> dict[str, object]:
    """The counters that need not be near any limit to be what they are, and the ops."""
    kept = {name: value for name, value in counters.exact.items() if not name.startswith("findings.")}
    return {**kept, **counters.ops}
