"""Convolutions in half precision run on tensors in NCHW order, on a GPU whose matrix units want the channels inside.

What it finds
    Dense 4-D convolutions in float16 or bfloat16, with at least 8 channels in and out and more than one pixel, whose
    inputs lie in NCHW order, on tensor cores (from Volta on, bfloat16 from Ampere on) or AMD's matrix cores (CDNA), and
    which take at least 10 % of the GPU's work.

Why it costs
    Matrix units multiply channels by channels. In NCHW the values of a pixel's channels lie far apart; the library
    either turns the tensors around before and after each convolution or falls back to slower kernels.

What to do
    `model = model.to(memory_format=torch.channels_last)` once, and the same for the input of each step.

When not to
    Grouped and depthwise convolutions can become many times slower in NHWC (no finding speaks of them), and a model
    that reshapes between its convolutions turns the tensors back each time. Only a trial can tell what it brings.

Source
    NVIDIA, Convolutional Layers User's Guide (tensor layouts); pytorch/pytorch#34977; RULES.md, LAY002.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.share import intervals_of
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules._nchw import InNchw, dense_in_nchw

SINCE = {"c10::Half": (7, 0), "c10::BFloat16": (8, 0)}
"""Type → compute capability from which tensor cores multiply it."""
CDNA = re.compile(r"\bMI\d{2,3}")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such convolutions of the window; what it is worth only a trial can tell."""
    wanted = [call for call in dense_in_nchw(trace, limits["channels"]) if _has_matrix_units(trace, call.input.type)]
    found = InNchw.among(trace, wanted)
    if not found.forward or found.share < limits["share"]:
        return
    largest = max(found.forward, key=lambda call: call.input.size)
    yield Sighting(
        message=f"Convolutions in {largest.input.type.removeprefix('c10::')} on NCHW tensors take {found.share:.0%} of "
        "the GPU's work.",
        where=where_of(trace, largest.row),
        evidence=found.told(largest),
        intervals_ns=intervals_of(trace, found.rows),
    )


def _has_matrix_units(trace: Trace, of_type: str) -> bool:
    since = SINCE.get(of_type)
    if since is None or not trace.devices:
        return False
    return all(
        bool(CDNA.search(device.name))
        if device.vendor == "amd"
        else device.vendor in ("", "nvidia") and (device.compute_capability or (0, 0)) >= since
        for device in trace.devices
    )


RULE = Rule(
    code="LAY002",
    name="half-conv-in-nchw",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS, Has.SHAPES, Has.STRIDES),
    thresholds={
        "share": Threshold(
            0.10, "share of the GPU's work", "a layout gains a fifth of a convolution, 2 % of such a step"
        ),
        "channels": Threshold(8, "channels", "a first layer has 3, and pads them to 8 in any layout"),
    },
)
