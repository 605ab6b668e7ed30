"""The calls of recurrent cells: torch's own, and the user's modules that are named so."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.loops import CELLS, forward_ops
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.trace import Trace, measure

CELL_MODULE = re.compile(r"(?:^|.*/)\w*Cell_\d+(?=/|$)")


@measure
def cell_calls(trace: Trace) -> pd.DataFrame:
    """One row per call of a cell: row (of its op, or of one that runs once per call), step, cell (which one).

    A module of the user's own is known by the name of its class, where the recording has stacks. What is called once
    per call of it is the op of it that is called least often.
    """
    table = forward_ops(trace)
    torchs = np.array([bool(CELLS.match(name)) for name in table["name"]], np.bool_)
    own = table[torchs].assign(cell=table["name"][torchs])
    return pd.concat((own, _of_modules(trace, table[~torchs])))[["row", "step", "cell"]].reset_index(drop=True)


def _of_modules(trace: Trace, table: pd.DataFrame) -> pd.DataFrame:
    paths = module_of(trace, table["row"].to_numpy(np.int64))
    cells = [found[0] if (found := CELL_MODULE.match(path)) else "" for path in paths]
    table = table.assign(cell=cells, path=paths)
    table = table[table["cell"] != ""]
    kept = []
    for _, group in table.groupby(["step", "cell"], sort=False):
        places = group.groupby(["path", "name"], sort=False, observed=True)["row"]
        counts = places.transform("size")
        rarest = group[counts == counts.min()]
        kept.append(rarest[(rarest["path"] == rarest["path"].iloc[0]) & (rarest["name"] == rarest["name"].iloc[0])])
    return pd.concat(kept) if kept else table
