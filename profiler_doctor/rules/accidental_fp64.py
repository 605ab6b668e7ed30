"""Tensors are float64, which usually means that NumPy's default has leaked into the model.

What it finds
    Ops that work on float64 tensors of at least one dimension, by the time they take themselves, where that adds up to
    a part of the step worth speaking of. Python numbers show up as 0-dimensional float64 too and are left out, and so
    are conversions from float64, which are the cure's own price.

Why it costs
    Twice the bytes and at best half the arithmetic per second on a CPU and on data-centre GPUs; on consumer GPUs a
    thirty-second or less of it.

What to do
    Convert where the data comes in: `torch.from_numpy(array).float()`, `np.float32` arrays, `dtype=torch.float32`,
    `model.float()`. Look for `.double()` and `torch.set_default_dtype`.

When not to
    Where the precision is meant: simulations, Gaussian processes, ill-conditioned solvers, sums over very many values.
    Then say so and ignore this rule.

Source
    pytorch/pytorch#4588, cornellius-gp/gpytorch#382; NVIDIA's architecture papers for the rates of float64.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace

CONVERSIONS = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::type_as", "aten::float")
PRODUCTS = re.compile(r"mm|conv|bmm|linear|matmul")
DATA_CENTRE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
"""Compute capabilities with half the rate of float32; all others have 1/32 or less."""
HALF_THE_BYTES = 0.5
CONSUMER_PRODUCT = 1 / 32
DISPATCH_NS = 5_000
"""What calling an op takes whatever its data, and what shorter data do not shorten: an empty op records as 2-5 µs."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all float64 ops of the window."""
    table = _doubles(trace)
    rows = table["row"].to_numpy()
    part = share(trace, rows)
    if not len(rows) or part < limits["share"]:
        return
    by_name = table.groupby("name", observed=True)["self_ns"].sum().sort_values(ascending=False)
    names = ", ".join(str(name).removeprefix("aten::") for name in by_name.index[:3])
    heaviest = int(rows[table["self_ns"].to_numpy().argmax()])
    yield Sighting(
        message=f"Ops on float64 tensors ({names}) take {part:.0%} of {whole(trace)}.",
        where=where_of(trace, heaviest),
        evidence={"ops": len(rows), "share": part, "self_ns_by_op": {str(k): int(v) for k, v in by_name[:5].items()}},
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=_kept(trace, table)),
        basis="the same ops in float32",
    )


def _doubles(trace: Trace) -> pd.DataFrame:
    """Ops of the window with a float64 tensor, most of whose time is their own: name, row, self_ns, dur_ns."""
    table = ops(trace)
    table = table[table["is_op"] & (2 * table["self_ns"] >= table["dur_ns"]) & ~table["name"].isin(CONVERSIONS)]
    table = table[table["row"].isin(rows_in_window(trace, table["row"]))]
    return table[_takes_doubles(trace, table["row"].to_numpy(np.int64))]


def _takes_doubles(trace: Trace, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each op takes a float64 tensor; ops that were called alike are looked at once."""
    dims, types = (trace.events.text(name).at(rows, -1) for name in ("Input Dims", "Input type"))
    _, first, which = np.unique(dims * (types.max(initial=0) + 2) + types, return_index=True, return_inverse=True)
    alike = [any(operand.type == "double" for operand in tensors(trace, row)) for row in rows[first].tolist()]
    return np.array(alike, np.bool_)[which]


def _kept(trace: Trace, table: pd.DataFrame) -> dict[int, float]:
    """Row → share that stays. On a GPU its kernels shrink, on a CPU the op beyond what calling it takes."""
    work = linked_work(trace)
    if len(work):
        names = dict(zip(table["row"], table["name"], strict=True))
        mine = work[work["op"].isin(names)]
        pairs = zip(mine["row"].tolist(), mine["op"].tolist(), strict=True)
        return {row: _on_gpu(trace, str(names[op])) for row, op in pairs}
    times = zip(table["row"].tolist(), table["self_ns"].tolist(), strict=True)
    return {row: 1 - HALF_THE_BYTES * max(own - DISPATCH_NS, 0) / max(own, 1) for row, own in times}


def _on_gpu(trace: Trace, name: str) -> float:
    known = [device.compute_capability for device in trace.devices if device.compute_capability]
    consumer = bool(known) and not any(capability in DATA_CENTRE for capability in known)
    return CONSUMER_PRODUCT if consumer and PRODUCTS.search(name) else HALF_THE_BYTES


RULE = Rule(
    code="PRC004",
    name="accidental-fp64",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={"share": Threshold(0.02, "share of the step", "half of it can be won: below, under 1 % of the step")},
)
