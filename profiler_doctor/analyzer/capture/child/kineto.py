"""torch's profiler before it starts: what it imports then is imported ahead, and the notes it prints stay unprinted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

QUIET = "6"
"""Above every level that kineto prints at: its start and stop notes would stand in the script's own output."""


def load_ahead(torch: Any) -> None:
    """Import what torch's profiler imports when it first starts (seconds), before a step has to wait for it."""
    with contextlib.suppress(Exception):  # builds without inductor profile without it, too
        __import__("torch._inductor.config")
    torch.profiler.supported_activities()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without kineto's notes; where the user has set a level, that one stays."""
    ours = "KINETO_LOG_LEVEL" not in os.environ
    if ours:
        os.putenv("KINETO_LOG_LEVEL", QUIET)  # not os.environ: that is the user's
    try:
        yield
    finally:
        if ours:
            os.unsetenv("KINETO_LOG_LEVEL")
