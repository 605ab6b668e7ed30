"""The module path of an op: which nn.Module called which, down to the one that ran it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.frames import MODULE_FRAME, frames, module_frames
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.trace import Ints, Trace, measure


@measure
def modules(trace: Trace) -> pd.DataFrame:
    """Every cpu_op that ran inside an nn.Module's call, in file order; backward ops count where their forward op ran.

    Columns: row, module (path, outermost first: "ResNet_0/Sequential_1/Conv2d_3"), module_row (the innermost module
    frame's row in the recording that has the stacks).
    """
    rows = trace.rows("cpu_op")
    recorded = trace if len(trace.rows("python_function")) else trace.stacks
    if recorded is None or not len(rows):
        return pd.DataFrame({"row": rows[:0], "module": [], "module_row": rows[:0]})
    there = forward_of(trace, rows)
    there = twins(trace, recorded, there) if recorded is not trace else there
    table = frames(recorded)
    known = np.where(there >= 0, there, 0)
    around = table.around(recorded.events.thread[known].astype(np.int64), recorded.events.start_ns[known])
    place = table.nearest(np.where(there >= 0, around, -1), module_frames(recorded))
    inside = place >= 0
    paths = _paths(recorded, place[inside])
    return pd.DataFrame({"row": rows[inside], "module": paths, "module_row": table.rows[place[inside]]})


def module_of(trace: Trace, op_rows: Ints) -> list[str]:
    """The module path of each op row, "" where it is not known."""
    table = modules(trace)
    rows, wanted = table["row"].to_numpy(), np.asarray(op_rows, np.int64)  # rows ascend: file order
    place = np.searchsorted(rows, wanted)
    paths = table["module"].array
    there = np.append(rows, -2)[place] == wanted  # no op: -1
    return [str(paths[at]) if inside else "" for at, inside in zip(place.tolist(), there.tolist(), strict=True)]


def _paths(trace: Trace, places: Ints) -> list[str]:
    """The path of each module frame; distinct frames are worked out once, callers first."""
    table, is_module = frames(trace), module_frames(trace)
    caller: dict[int, int] = {}
    asked = np.unique(places)
    while len(asked):
        above = table.nearest(table.nesting.parent[asked], is_module)
        caller.update(zip(asked.tolist(), above.tolist(), strict=True))
        asked = np.array(sorted({place for place in above.tolist() if place >= 0 and place not in caller}), np.int64)
    path: dict[int, str] = {}
    for place in sorted(caller, key=lambda place: int(table.nesting.depth[place])):
        found = MODULE_FRAME.match(trace.events.name_of(int(table.rows[place])))
        own = found["name"] if found else ""
        path[place] = f"{path[caller[place]]}/{own}" if caller[place] >= 0 else own
    return [path[place] for place in places.tolist()]
