"""What optimizers do in their steps and when they clear gradients: which ops they call, one by one or many at once."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.ops import is_op, ops
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.trace import Trace, measure

NAME = re.compile(r"^Optimizer\.(?P<what>step|zero_grad)#(?P<optimizer>[^.]+)")
AT_ONCE = re.compile(r"_foreach_|multi_tensor|_amp_foreach")
FUSED = re.compile(r"_fused_|multi_tensor_apply|fused_adam", re.IGNORECASE)


@measure
def optimizer_ops(trace: Trace) -> pd.DataFrame:
    """One row per op that an optimizer called itself (not from inside another op) in the judged window, in time order.

    Columns: row, name, dur_ns, call (row of the annotation around it), what (step or zero_grad), optimizer (class),
    at_once (it works on a list of tensors), fused (it does a whole step).
    """
    table = ops(trace)
    calls = _calls(trace)
    if not len(calls):
        return _described(table.iloc[:0], calls, np.empty(0, np.int64))
    above = table["parent"].to_numpy()
    outer = np.flatnonzero(table["is_op"].to_numpy() & ~((above >= 0) & is_op(trace)[above]))
    start, thread = table["start_ns"].to_numpy()[outer], table["thread"].to_numpy()[outer]
    place = np.searchsorted(calls["start_ns"].to_numpy(), start, side="right") - 1
    inside = (place >= 0) & (start < calls["end_ns"].to_numpy()[place])
    inside &= thread == calls["thread"].to_numpy()[place]
    return _described(table.iloc[outer[inside]], calls, place[inside])


@measure
def optimizer_calls(trace: Trace) -> pd.DataFrame:
    """One row per step or zero_grad of an optimizer in the judged window: row, what, optimizer."""
    return _calls(trace)[["row", "what", "optimizer"]].copy()


@measure
def _calls(trace: Trace) -> pd.DataFrame:
    """The annotations of optimizers, by start; an optimizer that wraps another one has the inner one's ops."""
    table = ops(trace)
    table = table[trace.events.matching_names(NAME.search)[trace.events.name[table["row"].to_numpy()]]]
    table = table[np.isin(table["row"], rows_in_window(trace, table["row"]))]
    parts = [NAME.search(str(name)) for name in table["name"]]
    table = table.assign(
        what=[part["what"] if part else "" for part in parts],
        optimizer=[part["optimizer"] if part else "" for part in parts],
    )
    in_order: pd.DataFrame = table.sort_values("start_ns", kind="stable", ignore_index=True)
    return in_order


def _described(chosen: pd.DataFrame, calls: pd.DataFrame, at: np.typing.NDArray[np.int64]) -> pd.DataFrame:
    found = chosen[["row", "name", "dur_ns"]].astype({"name": str}).reset_index(drop=True)
    for column, source in (("call", "row"), ("what", "what"), ("optimizer", "optimizer")):
        found[column] = calls[source].to_numpy()[at] if len(calls) else pd.Series(dtype=object)
    found["at_once"] = [bool(AT_ONCE.search(name)) for name in found["name"]]
    found["fused"] = [bool(FUSED.search(name)) for name in found["name"]]
    return found
