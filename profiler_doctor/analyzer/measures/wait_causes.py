"""Why the host waits for a device: to read a number, to learn a size, to copy, or because it was told to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.ops import named, outermost_named
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.trace import Trace, measure

SCALAR = named(r"^aten::(item|_local_scalar_dense|is_nonzero)$")
SHAPE = named(
    r"^aten::(nonzero|nonzero_numpy|argwhere|masked_select|index|index_put_?|_index_put_impl_|_?unique\w*|bincount"
    r"|repeat_interleave|multinomial|randperm)$"
)
"""Ops whose result's size depends on the data, or that look at the data on the host (RULES.md, SYN003)."""
COPY = named(r"^aten::(to|_to_copy|copy_|_copy_from|cpu|cuda)$")


@measure
def wait_causes(trace: Trace) -> pd.DataFrame:
    """Every blocking call with its cause, in time order.

    Columns of `syncs` (row, name, thread, start_ns, end_ns, dur_ns, op, step, synchronize, stream, waited_for), and:
    cause (scalar: a number is read; shape: an op learns the size of its result; readback: results are copied to the
    host; upload: data is copied to the device; other), under (row of the outermost op that stands for the cause; of
    `other` the innermost op, -1 for none).
    """
    table = syncs(trace).copy()
    op = table["op"].to_numpy(np.int64)
    scalar, shape, copy = (outermost_named(trace, op, test) for test in (SCALAR, SHAPE, COPY))
    moved = copies(trace)
    back = table["op"].isin(moved.loc[(moved["direction"] == "DtoH") & (moved["op"] >= 0), "op"]).to_numpy(np.bool_)
    causes = {
        "shape": (shape >= 0) & (copy < 0),
        "scalar": scalar >= 0,
        "readback": (copy >= 0) & back,
        "upload": copy >= 0,
    }
    kind = np.select(list(causes.values()), list(causes), default="other")
    under = np.select(list(causes.values()), [shape, scalar, copy, copy], default=op)
    return table.assign(cause=kind, under=under)


WAIT_CAUSES = Table(name="wait-causes", of=wait_causes)
