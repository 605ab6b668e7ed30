"""Dense convolutions run channel by channel (NCHW), on a device whose library prefers the channels side by side.

What it finds
    Convolutions over 4-D inputs with one group and at least 8 channels, whose inputs lie in memory as contiguous NCHW,
    and which together take a good part of the step. It looks where the other layout is the library's own: oneDNN on a
    CPU, and tensor cores on a GPU from Ampere on (float32 as TF32; for half precision see half-conv-in-nchw).

Why it costs
    The library rearranges every input into its own layout before it computes, and the result back afterwards. In
    channels_last nothing has to be moved, and the ops in between keep the layout.

What to do
    `model = model.to(memory_format=torch.channels_last)` once, and `x = x.to(memory_format=torch.channels_last)` for
    the input of each step. Let it be tried first: on one and the same machine some shapes gain and others lose.

When not to
    Grouped, depthwise and very small convolutions, and models that normalise each sample by itself (InstanceNorm) or
    reshape between convolutions, can become slower. Nothing but a trial can tell, so no time is promised here.

Source
    The channels_last tutorial of PyTorch; oneDNN's guide to memory formats; pytorch/pytorch#44943.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.share import intervals_of, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules._nchw import InNchw, dense_in_nchw

TENSOR_CORES_FROM = {"float": (8, 0)}
"""Type → compute capability from which tensor cores multiply it (float as TF32, cuDNN's default)."""
ONEDNN_TYPES = ("float", "c10::BFloat16", "c10::Half")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such convolutions of the window; what it is worth only a trial can tell."""
    wanted = [call for call in dense_in_nchw(trace, limits["channels"]) if _prefers_nhwc(trace, call.input.type)]
    found = InNchw.among(trace, wanted)
    if not found.forward or found.share < limits["share"]:
        return
    longest = max(found.forward, key=lambda call: int(trace.events.dur_ns[call.row]))
    yield Sighting(
        message=f"Dense convolutions take {found.share:.0%} of {whole(trace)}, and their inputs lie in NCHW order.",
        where=where_of(trace, longest.row),
        evidence=found.told(longest),
        intervals_ns=intervals_of(trace, found.rows),
    )


def _prefers_nhwc(trace: Trace, of_type: str) -> bool:
    if Has.CPU_ONLY in trace.has:
        return of_type in ONEDNN_TYPES
    needed = TENSOR_CORES_FROM.get(of_type)
    known = [device.compute_capability for device in trace.devices if device.compute_capability]
    nvidia = all(device.vendor in ("", "nvidia") for device in trace.devices)
    return bool(needed and known and nvidia and min(known) >= needed)


RULE = Rule(
    code="LAY004",
    name="nchw-convolution",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES, Has.STRIDES),
    thresholds={
        "share": Threshold(0.10, "share of the step", "a layout gains a fifth of a convolution, 2 % of such a step"),
        "channels": Threshold(8, "channels", "with fewer, side by side means hardly anything: a first layer has 3"),
    },
)
