"""The host's waits of one cause, place by place in the program: what three rules of SYN ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.source import function_of
from profiler_doctor.analyzer.measures.wait_causes import wait_causes
from profiler_doctor.analyzer.measures.window import Window
from profiler_doctor.analyzer.trace import Trace


def waits(trace: Trace, span: Window, cause: str, least_share: float) -> pd.DataFrame:
    """Rows of `wait_causes` in the window; none where together they take less than `least_share` of it."""
    table = wait_causes(trace)
    inside = (table["start_ns"] >= span.start_ns) & (table["start_ns"] < span.end_ns)
    table = table[inside & (table["cause"] == cause)]
    return table if table["dur_ns"].sum() >= least_share * span.span_ns else table.head(0)


def by_place(trace: Trace, table: pd.DataFrame, *also: Sequence[str]) -> list[pd.DataFrame]:
    """The table's rows by the function and module of the op in `under`, and by what is told `also` of each row.

    Most time first; `dur_ns` is its column of time.
    """
    if table.empty:
        return []
    rows = table["under"].to_numpy(np.int64)
    told = zip(function_of(trace, rows), module_of(trace, rows), *also, strict=True)
    groups = [group for _, group in table.groupby(np.array([str(place) for place in told], dtype=object), sort=False)]
    return sorted(groups, key=lambda group: -int(group["dur_ns"].sum()))
