"""Words and ids as columns of a table: no text is copied, nor compared for each row, and ids are kept narrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler_doctor.analyzer.trace import Codes, Ints, Trace, measure


def names_of(trace: Trace, rows: Ints) -> pd.Categorical[str]:
    """The names of event rows, as categories. Grouping by them needs `observed=True`; their order is the file's."""
    return pd.Categorical.from_codes(trace.events.name[rows], dtype=_names(trace))


def words(codes: npt.NDArray[np.signedinteger], table: Sequence[str]) -> pd.Categorical[str]:
    """The words that the codes stand for, as categories."""
    return pd.Categorical.from_codes(codes, pd.Index(list(table), dtype="str"))


def narrow(ids: Ints) -> Ints | Codes:
    """The ids in 32 bits, where all of them fit. Not for what is added up."""
    limits = np.iinfo(np.int32)
    fits = not len(ids) or (ids.min() >= limits.min and ids.max() <= limits.max)
    return ids.astype(np.int32) if fits else ids


def distinct(codes: npt.NDArray[np.signedinteger]) -> list[int]:
    """The codes (0 and up) that occur, in order. Of threads, streams and devices there are few: no sort is needed."""
    there = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    there[codes] = True
    return np.flatnonzero(there).tolist()


@measure
def _names(trace: Trace) -> pd.CategoricalDtype[str]:
    return pd.CategoricalDtype(pd.Index(list(trace.events.names), dtype="str"))
