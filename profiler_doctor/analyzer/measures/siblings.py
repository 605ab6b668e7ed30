"""What a thread did right before an op, on the same level of nesting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.measures.ops import ops, parent_of, place_of
from profiler_doctor.analyzer.trace import Ints, Trace


def before_it(trace: Trace, rows: npt.ArrayLike) -> Ints:
    """For each op row the op or annotation that came last before it inside the same parent, -1 for none."""
    wanted, table = np.asarray(rows, dtype=np.int64), ops(trace)
    if not len(table):
        return np.full(len(wanted), -1)
    order, thread = table["row"].to_numpy(np.int64), table["thread"].to_numpy(np.int64)
    at = np.where(wanted >= 0, place_of(trace)[wanted], 0)
    found = np.where((wanted >= 0) & (at > 0) & (thread[at - 1] == thread[at]), order[at - 1], -1)
    inside = parent_of(trace, wanted)
    while np.any(deeper := (found >= 0) & ((above := parent_of(trace, found)) != inside)):
        found = np.where(deeper, above, found)
    return found
