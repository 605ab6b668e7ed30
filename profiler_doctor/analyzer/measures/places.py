"""The places that a finding asks its reader to look at."""

from __future__ import annotations

import pandas as pd

MOST = 200
"""More places would swell the document and show no more."""


def places(table: pd.DataFrame) -> tuple[tuple[int, int], ...]:
    """(start_ns, end_ns) of the first MOST rows of a table that has both columns."""
    shown = table.head(MOST)
    return tuple(zip(shown["start_ns"].tolist(), shown["end_ns"].tolist(), strict=True))
