"""Attention is a single call already, but the call cannot take the fastest way.

What it finds
    `scaled_dot_product_attention` with a mask of tokens by tokens that is the same for all samples and heads, where
    `is_causal=True` would do if it is the causal one: our own recording looks at the masks that are alive and says so.
    On NVIDIA GPUs from Ampere on also calls in half precision without a mask that ran in the plain or the
    memory-efficient kernels, though flash attention takes their shapes.

Why it costs
    With `is_causal=True` the kernel leaves out the pairs above the diagonal, half of all. A mask is read for every
    pair, nothing is left out, and on a GPU it rules the flash kernels out altogether.

What to do
    Leave the mask away and pass `is_causal=True`. Where no mask is in the way, see what `sdpa_kernel` or
    `torch.backends.cuda` has switched off, and ask `torch.backends.cuda.can_use_flash_attention(params, debug=True)`.

When not to
    A mask that also hides padding is another mask: pass it. On a CPU blocks of 512 tokens are left out as a whole, so
    that fewer tokens save the mask alone, a twentieth to a fifth of the call. Flash attention is not deterministic in
    its backward pass, which is a reason to have switched it off.

Source
    PyTorch's documentation of scaled_dot_product_attention; Dao 2023 (FlashAttention-2); RULES.md, ATT002.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.element_types import peak_name
from profiler_doctor.analyzer.measures.flash_on_cpu import causal_share
from profiler_doctor.analyzer.measures.products import capability, peak_at
from profiler_doctor.analyzer.measures.sdpa import Sdpa, sdpas
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

AMPERE = (8, 0)
SLOW = ("attention_math", "efficient_attention")
WIDEST_HEAD = 256
OF_PEAK = 0.5
"""What flash attention reaches of the peak rate (RULES.md; its authors report up to 0.73)."""
TORCH_TYPES = {"bool": "bool", "float": "float32", "c10::Half": "float16", "c10::BFloat16": "bfloat16"}
"""The profiler's name of a type → torch's."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding on masks, and one on slow kernels."""
    masked = [call for call in sdpas(trace) if _could_be_causal(call, limits["tokens"])]
    told = {call.row: _causal(trace, call) for call in masked}
    masked = [call for call in masked if told[call.row] is not False]
    slow = [call for call in sdpas(trace) if _flash_would_do(trace, call, limits["tokens"])]
    for calls, on_masks in ((masked, True), (slow, False)):
        part = share(trace, [call.row for call in calls])
        if calls and part >= limits["share"]:
            yield _sighting(trace, calls, _on_mask(calls, told) if on_masks else _on_kernels(calls))


def _sighting(trace: Trace, calls: list[Sdpa], about: str) -> Sighting:
    rows, span = [call.row for call in calls], window(trace)
    largest = max(calls, key=lambda call: call.time_ns)
    return Sighting(
        message=f"Attention {about}: {share(trace, rows):.1%} of {whole(trace)}.",
        where=where_of(trace, largest.row),
        evidence={
            "calls_per_step": round(len(calls) / (span.per if span else 1), 3),
            "implementation": largest.implementation,
            "query": list(largest.query.dims),
            "key": list(largest.key.dims),
            "mask": list(largest.mask.dims) if largest.mask else None,
            "type": largest.query.type,
            "share": share(trace, rows),
        },
        intervals_ns=intervals_of(trace, rows),
        edit=_edit(trace, calls),
        basis="flash attention at half the peak rate, or without the mask and the pairs above the diagonal",
    )


def _on_mask(calls: list[Sdpa], told: dict[int, bool | None]) -> str:
    if all(told[call.row] for call in calls):
        return "is given a mask that equals the causal one, and computes pairs that is_causal=True leaves out"
    return "is given a mask of tokens by tokens; where that is the causal one, is_causal=True leaves pairs out"


def _on_kernels(calls: list[Sdpa]) -> str:
    plain = any(call.implementation == SLOW[0] for call in calls)
    kernels = "plain" if plain else "memory-efficient"
    return f"runs in the {kernels} kernels, though flash attention takes its types and shapes"


def _could_be_causal(call: Sdpa, tokens: float) -> bool:
    if call.mask is None or call.causal or call.query.dims[-2] != call.key.dims[-2] or len(call.mask.dims) < 2:
        return False
    *leading, rows, columns = call.mask.dims
    return rows == columns == call.query.dims[-2] >= tokens and all(extent == 1 for extent in leading)


def _causal(trace: Trace, call: Sdpa) -> bool | None:
    """Whether the mask is known to be causal; None where none like it was seen."""
    assert call.mask is not None
    seen = [
        mask.causal
        for mask in (trace.facts.masks if trace.facts else ())
        if mask.dims[-2:] == call.mask.dims[-2:] and mask.type == TORCH_TYPES.get(call.mask.type)
    ]
    return any(seen) if seen else None


def _flash_would_do(trace: Trace, call: Sdpa, tokens: float) -> bool:
    known = capability(trace)
    width = call.query.dims[-1]
    alike = width == call.key.dims[-1] == call.value.dims[-1] and width <= WIDEST_HEAD
    half = call.query.type in ("c10::Half", "c10::BFloat16") and call.query.type == call.key.type == call.value.type
    new = known is not None and known >= AMPERE and call.time_ns > 0
    return new and call.mask is None and half and alike and call.implementation in SLOW and call.key.dims[-2] >= tokens


def _edit(trace: Trace, calls: list[Sdpa]) -> Edit:
    """On a GPU the kernels shrink to what flash attention takes; on a CPU the call to the pairs that are needed."""
    work = linked_work(trace)
    if not len(work):
        return Edit(keep=_needed_on_cpu(trace, calls))
    around = enclosing(trace, work["op"].to_numpy(np.int64), np.array([call.row for call in calls], np.int64))
    device = int(work["device"].iloc[0])
    stays = {call.row: _flash_share(trace, call, device) for call in calls}
    pairs = zip(work["row"].tolist(), around.tolist(), strict=True)
    return Edit(keep={row: stays[call] for row, call in pairs if call >= 0})


def _flash_share(trace: Trace, call: Sdpa, device: int) -> float:
    peak = peak_at(trace, device)
    rate = peak.flops_per_s(peak_name(call.query.type), products=True) if peak else None
    if peak is None or not rate:
        return _needed(call)
    least = max(call.flops * _needed(call) / (OF_PEAK * rate), call.bytes / peak.bytes_per_s) * 1e9
    return min(least / max(call.time_ns, 1), 1.0)


def _needed(call: Sdpa) -> float:
    """The share of pairs that are needed: those on and below the diagonal where the mask can go or was told so."""
    tokens = call.query.dims[-2]
    return (tokens + 1) / (2 * tokens) if call.mask is not None or call.causal else 1.0


def _needed_on_cpu(trace: Trace, calls: list[Sdpa]) -> dict[int, float]:
    """Calls of the same shapes count as the quickest of them: the others waited for the CPU."""
    alike: dict[tuple[object, ...], list[Sdpa]] = {}
    for call in calls:
        assert call.mask is not None
        alike.setdefault((call.query, call.key, call.mask), []).append(call)
    return {
        call.row: causal_share(trace, call, min(one.time_ns for one in several))
        for several in alike.values()
        for call in several
    }


RULE = Rule(
    code="ATT002",
    name="sdpa-slow-backend",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={
        "share": Threshold(0.02, "share of the step", "half of it won is 1 %, the least that matters"),
        "tokens": Threshold(64, "tokens", "with fewer the pairs above the diagonal cost nothing to speak of"),
    },
)
