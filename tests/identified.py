"""A trace with the tensors' identities: recorded here and now, in two recordings as our capture makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.child.identity import tensor_facts
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace

torch = pytest.importorskip("torch")


def identified(folder: Path, step: Callable[[], object], **facts: Any) -> Trace:
    """Four steps of this kind, and two recorded with stacks."""
    _recorded(folder / "trace.json", step, 4)
    recording = _recorded(folder / "stacks.json", step, 2, profile_memory=True, with_stack=True)
    seen = Facts(**{"tensors": tensor_facts(recording), **facts})
    return read(folder / "trace.json").with_capture(seen, read(folder / "stacks.json"))


def without_identity(trace: Trace) -> Trace:
    """The same as an older capture would hand it over."""
    assert trace.facts is not None
    return trace.with_capture(replace(trace.facts, tensors=None), trace.stacks)


def _recorded(file: Path, step: Callable[[], object], steps: int, **options: bool) -> Any:
    cpu = [torch.profiler.ProfilerActivity.CPU]
    step()
    with torch.profiler.profile(activities=cpu, record_shapes=True, **options) as recording:
        for number in range(steps):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
    recording.export_chrome_trace(str(file))
    return recording
