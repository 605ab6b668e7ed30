"""Leave everything as it is, and see whether a trial is fooled.

What it does: it treats the outermost module with its own call, so that both sides of the trial run the same program.

When it applies: always. It is the placebo: whatever a trial measures with it is the machine's noise and our own error.

How results may change: not at all.

Source: VERIFY, the placebo looked 8–12 % faster on a busy machine where pairs were few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Root


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    yield root.call


FIX = Fix(
    name="do-nothing",
    doc=__doc__,
    cures=(),
    snippet="pass",
    changes_numbers="",
    rank=0,
    treat=_treat,
    of="any",
    hidden=True,
)
