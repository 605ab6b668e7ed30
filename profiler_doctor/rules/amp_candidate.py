"""Most of the GPU's time goes into products in float32, which half precision would halve at least.

What it finds
    Products and convolutions of float32 tensors that take at least 30 % of the GPU's work on an NVIDIA GPU with tensor
    cores, in a run without autocast.

Why it costs
    Half precision moves half the bytes, and tensor cores multiply it at twice the rate of TF32 and at up to sixteen
    times the rate of plain float32.

What to do
    `with torch.autocast("cuda", dtype=torch.bfloat16):` around the forward pass and the loss; with float16 also a
    `torch.amp.GradScaler`. For inference `model.to(torch.bfloat16)` saves the casts too.

When not to
    Where numbers must agree with float32 to more than two or three digits, or where range matters and only float16 is
    at hand. Compare the loss of a few hundred steps before believing it. Before Ampere there is no bfloat16.

Source
    Micikevicius et al. 2018 (mixed precision training); NVIDIA's data sheets for the rates; RULES.md, PRC002.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.casts import casts
from profiler_doctor.analyzer.measures.peaks import Peak
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.products import capability, kernels_of, least_ns, peak_at, products
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace

VOLTA, AMPERE = (7, 0), (8, 0)
HALF = 0.5
"""Of a product's time, where it is bound by the memory or computed in TF32."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all float32 products of the window."""
    known, table = capability(trace), products(trace)
    if known is None or known < VOLTA or _autocast(trace):
        return
    floats = table[table["type"] == "float"]
    total, time = int(linked_work(trace)["dur_ns"].sum()), int(floats["time_ns"].sum())
    if not len(floats) or time < limits["share"] * total:
        return
    kernels = kernels_of(trace, floats["op"].to_numpy(np.int64))
    kind = "bf16" if known >= AMPERE else "fp16"
    yield Sighting(
        message=f"Products in float32 take {time / total:.0%} of the GPU's work, and there are tensor cores for half "
        "precision.",
        where=where_of(trace, int(floats.nlargest(1, "time_ns")["op"].iloc[0])),
        evidence={
            "products": len(floats),
            "time_ns": time,
            "share": time / total,
            "in_tf32": int(floats["tf32"].sum()),
            "type": kind,
        },
        intervals_ns=places(kernels),
        edit=Edit(keep=_kept(floats, kernels, peak_at(trace, int(floats["device"].iloc[0])), kind)),
        basis=f"the same products in {kind}: half the time, or less where the peaks say so",
    )


def _autocast(trace: Trace) -> bool:
    facts = trace.facts
    return bool(casts(trace)["by_autocast"].any()) or bool(facts and any(root.autocast for root in facts.roots))


def _kept(floats: pd.DataFrame, kernels: pd.DataFrame, peak: Peak | None, kind: str) -> dict[int, float]:
    """Kernel row → share that stays: half, or for plain kernels the ratio of the peaks; never less than the floor."""
    stays = pd.Series(HALF, index=floats.index)
    if peak:
        rate = peak.flops_per_s(kind, products=True) or peak.vector.get("fp32", 0.0)
        ratio = min(peak.vector.get("fp32", rate) / rate, HALF)
        floor = (least_ns(floats, peak, kind) / floats["time_ns"]).fillna(HALF)
        stays = stays.where(~floats["simt"].astype(bool), ratio).clip(lower=floor).clip(upper=1.0)
    by_op = pd.Series(stays.to_numpy(), index=floats["op"])
    return dict(zip(kernels["row"].tolist(), kernels["op"].map(by_op).tolist(), strict=True))


RULE = Rule(
    code="PRC002",
    name="amp-candidate",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS, Has.SHAPES),
    thresholds={"share": Threshold(0.30, "share of the GPU's work", "with less, casts and other ops eat the gain")},
)
