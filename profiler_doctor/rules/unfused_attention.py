"""Attention is computed step by step: scores, softmax and weighted sum are separate ops with the scores in memory.

What it finds
    A softmax over the last dimension whose input has the shape of the batched matrix product before it, and whose
    output is the first factor of the batched matrix product after it, outside of any fused attention op.

Why it costs
    The scores have one number for each pair of tokens. Scaling, masking, softmax and dropout each read and write all
    of them, while a fused kernel keeps a small block of them in the cache and never stores the rest.

What to do
    `torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=...)`; in Hugging Face models
    `attn_implementation="sdpa"`; with nn.MultiheadAttention `need_weights=False`.

When not to
    Where the attention weights themselves are wanted (no finding where an op uses them afterwards), or where something
    other than a mask or a bias happens to the scores. With dropout the random numbers differ.

Source
    Dao et al. 2022 (FlashAttention); PyTorch's documentation of scaled_dot_product_attention; karpathy/nanoGPT#102.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.attention import Attention, attentions
from profiler_doctor.analyzer.measures.flash_on_cpu import fused_ns
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all of them in the window."""
    plain = [found for found in attentions(trace) if not found.weights_used and _pairs(found) >= limits["pairs"]]
    inside = set(rows_in_window(trace, [found.softmax for found in plain]).tolist())
    plain = [found for found in plain if found.softmax in inside]
    span, on_gpu = window(trace), len(linked_work(trace)) > 0
    if not plain or span is None:
        return
    between = [row for found in plain for row in found.between]
    most = max(plain, key=lambda found: int(trace.events.dur_ns[list(found.between)].sum()))
    yield Sighting(
        message=f"Attention is written out {len(plain) / span.per:.3g} times per {span.unit}, with its scores "
        f"({_shape(most)}) in memory; what is done to them takes {share(trace, between):.1%} of {whole(trace)}.",
        where=where_of(trace, most.softmax),
        evidence={
            "attentions": len(plain),
            "scores": list(most.shape),
            "ops_between": [trace.events.name_of(row) for row in most.between],
            "share": share(trace, between),
        },
        intervals_ns=_intervals(trace, plain),
        edit=Edit(keep=dict.fromkeys(between, 0.0)) if on_gpu else _on_cpu(trace, plain),
        basis="the two matrix products alone" if on_gpu else "each as one call, from the time of its products",
    )


def _on_cpu(trace: Trace, found: list[Attention]) -> Edit:
    """What one call takes stays, of the products first. Attentions of the same ops on the same shapes count as the
    quickest: the others waited for the CPU."""
    alike: dict[tuple[object, ...], list[Attention]] = {}
    for one in found:
        alike.setdefault((one.shape, *trace.events.names_at(_rows(one))), []).append(one)
    keep: dict[int, float] = {}
    for several in alike.values():
        scores, output, *between = trace.events.dur_ns[[_rows(one) for one in several]].min(axis=0).tolist()
        left = fused_ns(trace, several[0], (scores, output), _is_causal(trace, several[0]))
        products = min(left / max(scores + output, 1), 1.0)
        rest = min(max(left - scores - output, 0.0) / max(sum(between), 1), 1.0)
        for one in several:
            keep |= dict.fromkeys((one.scores, one.output), products) | dict.fromkeys(one.between, rest)
    return Edit(keep=keep)


def _rows(found: Attention) -> list[int]:
    return [found.scores, found.output, *found.between]


def _is_causal(trace: Trace, found: Attention) -> bool:
    """Whether a causal mask of its shape was seen."""
    masks = trace.facts.masks if trace.facts else ()
    return any(mask.causal and mask.dims[-2:] == found.shape[-2:] for mask in masks)


def _pairs(found: Attention) -> int:
    """Numbers in the matrix of scores of one head."""
    return found.shape[-2] * found.shape[-1]


def _shape(found: Attention) -> str:
    return "×".join(map(str, found.shape))


def _intervals(trace: Trace, found: list[Attention]) -> tuple[tuple[int, int], ...]:
    starts, ends = ([getattr(one, part) for one in found] for part in ("scores", "output"))
    pairs = zip(intervals_of(trace, starts), intervals_of(trace, ends), strict=True)
    return tuple((first[0], last[1]) for first, last in pairs)


RULE = Rule(
    code="ATT001",
    name="unfused-attention",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={
        "pairs": Threshold(256, "scores per head", "16 × 16: with fewer the call itself is all there is to win"),
    },
)
