"""The library reorders tensors around convolutions because they come in the wrong layout.

What it finds
    Kernels that only transform between NCHW and NHWC (cuDNN's `nchwToNhwc` and `nhwcToNchw`, MIOpen's transposes and
    tensor copies), launched under convolutions: four or more per step and at least 2 % of the GPU's busy time.

Why it costs
    Tensor cores, and most of the fast convolution kernels, work on NHWC. With NCHW tensors the library transforms every
    input and output, which reads and writes each tensor once more.

What to do
    `model.to(memory_format=torch.channels_last)` and the same for the input: then tensors stay in the order that the
    kernels want, from the first convolution to the last.

When not to
    A model with one or two convolutions among other layers gains nothing. An op in the middle that asks for contiguous
    tensors (a `view`, a custom kernel) flips the layout back and forth; cure that first. Grouped and depthwise
    convolutions can be slower in NHWC: try it.

Source
    RULES.md, LAY001. Kernel names of cuDNN 8 and 9 and of MIOpen.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.intervals import union, union_ns, without
from profiler_doctor.analyzer.measures.ops import inside_named, named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import in_window, window
from profiler_doctor.analyzer.trace import Trace

TRANSFORM = named(
    r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw",
    r"batched_transpose_|transpose_NCHW",
    r"SubTensorOp\w*|tensorTransformGeneric",
)
CONVOLUTION = named(r"conv")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all convolutions."""
    span, work = window(trace), gpu_work(trace)
    if span is None or not len(work):
        return
    transforms = work[work["name"].map(TRANSFORM).notna()]
    transforms = transforms[inside_named(trace, transforms["op"].to_numpy(np.int64), CONVOLUTION)]
    judged = transforms[in_window(trace, transforms)]
    busy = union_ns(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    time = int(transforms["dur_ns"].sum())
    if len(judged) < limits["per_step"] * span.per or time < limits["busy_share"] * busy:
        return
    yield Sighting(
        message=f"{len(transforms)} kernels only turn tensors between NCHW and NHWC for convolutions: "
        f"{time / 1e6:.1f} ms, {time / busy:.1%} of the GPU's busy time.",
        where=where_of(trace, int(judged.nlargest(1, "dur_ns")["op"].iloc[0])),
        evidence={
            "transforms": len(transforms),
            "transforms_per_step": round(len(judged) / span.per, 3),
            "time_ns": time,
            "exclusive_ns": _alone(transforms, work),
            "busy_ns": busy,
        },
        intervals_ns=places(judged),
        edit=Edit(keep=dict.fromkeys(judged["row"].tolist(), 0.0)),
        basis="the transforms gone, the convolutions as they are",
    )


def _alone(transforms: pd.DataFrame, work: pd.DataFrame) -> int:
    """Their time, in ns, in which nothing else ran on any stream."""
    others = ~np.isin(work["row"], transforms["row"], kind="table")
    own = union(transforms["start_ns"].to_numpy(), transforms["end_ns"].to_numpy())
    cover = union(work["start_ns"].to_numpy()[others], work["end_ns"].to_numpy()[others])
    return without(own, cover).total_ns


RULE = Rule(
    code="LAY001",
    name="layout-transform-kernels",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS),
    thresholds={
        "per_step": Threshold(4, "transforms per step", "a patch embedding alone causes one to three (RULES.md)"),
        "busy_share": Threshold(0.02, "share of the GPU's busy time", "3 transforms of a ViT are 1.9 %: no headline"),
    },
)
