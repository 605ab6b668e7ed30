"""Words as a column of a table: codes into one list, so that no text is copied, and compared once and not per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler_doctor.analyzer.trace import Ints, Trace, measure


def names_of(trace: Trace, rows: Ints) -> pd.Categorical[str]:
    """The names of event rows, as categories. Grouping by them needs `observed=True`; their order is the file's."""
    return pd.Categorical.from_codes(trace.events.name[rows], dtype=_names(trace))


def words(codes: npt.NDArray[np.signedinteger], table: Sequence[str]) -> pd.Categorical[str]:
    """The words that the codes stand for, as categories."""
    return pd.Categorical.from_codes(codes, pd.Index(list(table), dtype="str"))


@measure
def _names(trace: Trace) -> pd.CategoricalDtype[str]:
    return pd.CategoricalDtype(pd.Index(list(trace.events.names), dtype="str"))
