"""Matrix products in float32 run without tensor cores, on a GPU that could multiply them as TF32.

What it finds
    Products and convolutions of float32 tensors on NVIDIA GPUs from Ampere on whose kernels are the plain ones
    (`sgemm`, `scudnn`, `simt`), and which take at least 2 % of the GPU's work, in a run in which no other product of
    their kind uses TF32.

Why it costs
    Without tensor cores an A100 multiplies 19.5 TFLOPS, with them, as TF32, 156. TF32 has float32's range and ten bits
    of mantissa; sums stay in float32.

What to do
    `torch.set_float32_matmul_precision("high")` for products, and `torch.backends.cudnn.allow_tf32 = True` for
    convolutions.

When not to
    Where float32's full precision is needed: solving equations, physics, or comparing with a reference. Where only some
    products do without TF32, the library has chosen so for their shape, and no finding speaks of them.

Source
    NVIDIA A100 white paper; PyTorch's notes on CUDA semantics, TensorFloat-32; RULES.md, PRC001.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.peaks import Peak
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.products import capability, kernels_of, least_ns, peak_at, products
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace

AMPERE = (8, 0)


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such products of the window."""
    known = capability(trace)
    if known is None or known < AMPERE:
        return
    plain = _plain(products(trace))
    total, time = int(linked_work(trace)["dur_ns"].sum()), int(plain["time_ns"].sum())
    peak = peak_at(trace, int(plain["device"].iloc[0])) if len(plain) else None
    if not len(plain) or time < limits["share"] * total or (peak and not _gains(peak)):
        return
    kernels = kernels_of(trace, plain["op"].to_numpy(np.int64))
    yield Sighting(
        message=f"{len(plain)} products of float32 matrices run without tensor cores: {time / total:.1%} of the GPU's "
        "work.",
        where=where_of(trace, int(plain.nlargest(1, "time_ns")["op"].iloc[0])),
        evidence={
            "products": len(plain),
            "time_ns": time,
            "share": time / total,
            "kernel": str(kernels.nlargest(1, "dur_ns")["name"].iloc[0]),
        },
        intervals_ns=places(kernels),
        edit=_edit(plain, kernels, peak) if peak else None,
        basis="the same products at the peak rate of TF32, or of the memory where that is slower",
    )


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Float products on plain kernels; none of a kind (convolution or not) of which others use TF32."""
    if table.empty:
        return table
    allowed = table.groupby("convolution")["tf32"].transform("any").astype(bool)
    chosen: pd.DataFrame = table[(table["type"] == "float") & table["simt"].astype(bool) & ~allowed]
    return chosen


def _gains(peak: Peak) -> bool:
    """Consumer boards multiply TF32 no faster than float32."""
    return (peak.matrix.get("tf32") or 0.0) > (peak.vector.get("fp32") or 0.0)


def _edit(plain: pd.DataFrame, kernels: pd.DataFrame, peak: Peak) -> Edit:
    """Each kernel shrinks by the peaks' ratio, but not below what its product needs at least."""
    ratio = peak.vector.get("fp32", 0.0) / peak.matrix["tf32"]
    least = least_ns(plain, peak, "tf32") / plain["time_ns"]
    share = least.fillna(ratio).clip(lower=ratio, upper=1.0)
    stays = dict(zip(plain["op"].tolist(), share.tolist(), strict=True))
    return Edit(keep={row: stays[op] for row, op in zip(kernels["row"].tolist(), kernels["op"].tolist(), strict=True)})


RULE = Rule(
    code="PRC001",
    name="fp32-matmul-no-tf32",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS, Has.SHAPES),
    thresholds={
        "share": Threshold(0.02, "share of the GPU's work", "a lone product of a few µs is no precision policy")
    },
)
