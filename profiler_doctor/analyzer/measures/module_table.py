"""Where the time goes by nn.Module: what each one's own ops take, and what it takes with the modules inside it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.modules import modules
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.trace import Ints, Trace, measure

COLUMNS = ("module", "depth", "ops", "self_ns", "time_ns", "gpu_self_ns", "gpu_ns")


@measure
def module_table(trace: Trace) -> pd.DataFrame:
    """One row per module path, in the order in which the modules are first called, callers before callees.

    Columns: module (path, outermost first: "Net_0/Linear_1"), depth (0 outermost), ops (run in it and in no module
    inside it), self_ns (host time of those ops, less what other ops inside them took), time_ns (self_ns with that of
    the modules inside it), gpu_self_ns (device work that those ops launched, by its durations), gpu_ns (with the
    modules inside it). The backward pass counts for the module of its forward op. Only where there are Python stacks.
    """
    table = ops(trace)
    path = module_paths(trace)
    table = table[table["is_op"].to_numpy() & (path != "")[table["row"]]]
    rows = table["row"].to_numpy(np.int64)
    gpu = _gpu_ns(trace)[rows]
    own = pd.DataFrame({"module": path[rows], "ops": 1, "self_ns": table["self_ns"].to_numpy(), "gpu_self_ns": gpu})
    own["first_ns"] = table["start_ns"].to_numpy()
    by_module = own.groupby("module", sort=False)
    found = by_module.agg({"ops": "sum", "self_ns": "sum", "gpu_self_ns": "sum", "first_ns": "min"}).reset_index()
    return _with_callers(found)[list(COLUMNS)]


def module_paths(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """For every event row: the path of the module whose op it is, "" for none; backward ops have their forward op's."""
    paths = np.full(len(trace.events), "", dtype=object)
    known = modules(trace)
    if not len(known):
        return paths
    paths[known["row"].to_numpy(np.int64)] = known["module"].to_numpy(dtype=object)
    return paths[forward_of(trace, np.arange(len(paths)))]


def _gpu_ns(trace: Trace) -> Ints:
    """For every event row: the durations of the device work that it launched."""
    work = gpu_work(trace)
    work = work[work["op"] >= 0]
    found = np.zeros(len(trace.events), np.int64)
    np.add.at(found, work["op"].to_numpy(np.int64), work["dur_ns"].to_numpy(np.int64))
    return found


def _with_callers(own: pd.DataFrame) -> pd.DataFrame:
    """The same with a row for every module above, and each one's times with those inside it."""
    paths = own["module"].tolist()
    around = [above for path in paths for above in _upwards(path)]
    times = [own.index[place] for place, path in enumerate(paths) for _ in _upwards(path)]
    spread = own.loc[times].assign(module=around).groupby("module", sort=False)
    found = spread.agg(time_ns=("self_ns", "sum"), gpu_ns=("gpu_self_ns", "sum"), first_ns=("first_ns", "min"))
    direct = own.set_index("module")[["ops", "self_ns", "gpu_self_ns"]].reindex(found.index, fill_value=0)
    found = found.join(direct).reset_index()
    found["depth"] = [path.count("/") for path in found["module"]]
    return found.sort_values(["first_ns", "depth"], kind="stable", ignore_index=True)


def _upwards(path: str) -> list[str]:
    """The path and those of the modules above it."""
    parts = path.split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


MODULES = Table(name="modules", of=module_table)
