"""What a throw-away run of the user's program wrote beside its recording, for the facts of the watched one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from profiler_doctor.analyzer.facts import TensorFacts


def taken_tensors(place: Path) -> TensorFacts | None:
    """What the run with stacks saw of them; its file is taken away."""
    file = place / "tensors.json"
    with suppress(FileNotFoundError):
        found = msgspec.json.decode(file.read_bytes(), type=TensorFacts | None)
        file.unlink()
        return found
    return None
