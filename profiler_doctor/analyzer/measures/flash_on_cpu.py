"""How long torch's fused attention takes on a CPU, from what was recorded of the same attention in another form.

Per pair of query and key the kernel does both products, an exp, and what the mask asks for; it takes the keys in blocks
and, told `is_causal`, leaves out the blocks above the diagonal, whole ones only, and puts -inf over the rest of the
last one. A mask is added pair by pair, once for each head; one of bool is first made into numbers, and one that is
larger than a core's cache comes from memory for each head anew.

So a causal call without its mask is: (call - mask) x blocks that are left + the last block's -inf. For up to 512 keys
there is one block, so that `is_causal` wins the mask alone: 5 to 20 % where it is one of bool, half of it where it is
one of numbers. Attention that is written out becomes: both products at the rate of the quicker one (the other one
mostly waits for new memory), an exp for each pair, its mask, and the call.

The work on a pair is told in exps of the machine (`function_prices`), measured on one thread with AVX-512 for 64 to
2,048 tokens, heads of 32 to 128, float32 and bfloat16. Of 105 savings of attention written out 87 came out within a
quarter, and of 36 of a mask of more than 512 tokens 35; of 47 of shorter masks 22, which are mostly under a sixth of
the call, and differ by up to an eighth of it.
"""

from __future__ import annotations

from profiler_doctor.analyzer.measures.attention import Attention
from profiler_doctor.analyzer.measures.chains import bytes_per_s
from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.function_prices import price_ns
from profiler_doctor.analyzer.measures.operands import Operand, tensors
from profiler_doctor.analyzer.measures.sdpa import Sdpa
from profiler_doctor.analyzer.trace import Trace

KEYS_AT_ONCE = 512
"""Of torch's kernel: its kvSplitSize."""
ADDING, HIDING, WEIGHING = 0.45, 0.3, 1.0
"""Of a pair, in exps: adding a mask in the cache, putting -inf over a score, the weight itself with its sum."""
CONVERTING, CONVERTING_CALL_NS = 2.9, 5_000
"""Of an element of a mask of bool, in exps, and the ops for it."""
CACHE_BYTES = 2 << 20
"""Of one core: a mask half as large stays in it half."""
BYTES_PER_S = 1e10
"""Of memory where it was not measured."""
CALL_NS = 20_000
"""Of scaled_dot_product_attention, its checks and views."""
LEAST_LEFT = 0.3
"""Of a call without its mask: so much at least are the products."""
MASKING = ("aten::masked_fill", "aten::masked_fill_", "aten::where")
ADDITIONS = ("aten::add", "aten::add_", "aten::baddbmm")


def causal_share(trace: Trace, call: Sdpa, call_ns: int) -> float:
    """What stays of a masked call that takes `call_ns` where `is_causal` does for the mask; at most 1."""
    assert call.mask is not None
    heads = call.pairs // max(call.query.dims[-2] * call.key.dims[-2], 1)
    mask_ns = _mask_ns(trace, call.query, call.key.dims[-2], heads, of_bool=call.mask.type == "bool")
    bare = max(call_ns - mask_ns, LEAST_LEFT * call_ns)
    return min(_causal_ns(trace, bare, call.pairs, call.key.dims[-2]) / max(call_ns, 1), 1.0)


def fused_ns(trace: Trace, found: Attention, took_ns: tuple[int, int], causal: bool) -> float:
    """What one call takes in the place of an attention whose two products took `took_ns`; `causal`: with is_causal."""
    (query, _), (_, value) = (tensors(trace, row)[-2:] for row in (found.scores, found.output))
    batch, queries, keys = query.dims[0], query.dims[1], value.dims[1]
    pairs = batch * queries * keys
    widths = query.dims[-1], value.dims[-1]
    rate = min(took / width for took, width in zip(took_ns, widths, strict=True))
    bare = rate * sum(widths) + pairs * WEIGHING * price_ns(trace, "exp float") + CALL_NS
    if causal:
        return _causal_ns(trace, bare, pairs, keys)
    masked = _is_masked(trace, found)
    return bare + (_mask_ns(trace, query, keys, batch, of_bool=masked == "bool") if masked else 0.0)


def _causal_ns(trace: Trace, bare_ns: float, pairs: int, keys: int) -> float:
    blocks = -(-keys // KEYS_AT_ONCE)
    hidden = pairs * min(KEYS_AT_ONCE / max(keys, 1), 1.0)
    return bare_ns * (blocks + 1) / (2 * blocks) + hidden * HIDING * price_ns(trace, "exp float")


def _mask_ns(trace: Trace, query: Operand, keys: int, heads: int, of_bool: bool) -> float:
    elements, exp_ns = query.dims[-2] * keys, price_ns(trace, "exp float")
    wide = width(query.type) or 0
    from_memory = min(elements * wide / CACHE_BYTES, 1.0)
    each_ns = ADDING * exp_ns + from_memory * wide / (bytes_per_s(trace) or BYTES_PER_S) * 1e9
    making_ns = CONVERTING_CALL_NS + elements * CONVERTING * exp_ns if of_bool else 0.0
    return making_ns + elements * heads * each_ns


def _is_masked(trace: Trace, found: Attention) -> str:
    """The type of the mask that is put over the scores or added to them; "" for none."""
    for row in found.between:
        name, given = trace.events.name_of(row), tensors(trace, row)
        others = [one.type for one in given if one.type == "bool"] if name in MASKING else []
        if name in ADDITIONS and len(given) > 1:
            others = [given[-1].type]
        if others:
            return others[0]
    return ""
