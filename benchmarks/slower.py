"""Fixes that make a program slower by a known part, to see whether a trial notices: the counterpart of the placebo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Root

PARTS = (5, 10)


def _slower_by(percent: int) -> Callable[[Root], AbstractContextManager[Callable[..., Any]]]:
    @contextmanager
    def treat(root: Root) -> Iterator[Callable[..., Any]]:
        def call(*args: Any, **kwargs: Any) -> Any:
            begun_ns = time.process_time_ns()
            output = root.call(*args, **kwargs)
            now_ns = time.process_time_ns()
            until_ns = now_ns + (now_ns - begun_ns) * percent // 100
            while time.process_time_ns() < until_ns:  # CPU time, and so wall time too
                pass
            return output

        yield call

    return treat


def _fix(percent: int) -> Fix:
    return Fix(
        name=f"slower-{percent}",
        doc=f"Work {percent} % longer in each call.",
        cures=(),
        snippet="pass",
        changes_numbers="",
        rank=0,
        treat=_slower_by(percent),
        hidden=True,
    )


FIVE, TEN = (_fix(percent) for percent in PARTS)
