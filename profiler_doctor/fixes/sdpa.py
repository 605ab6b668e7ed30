"""Let attention that is written out be one call of torch's fused attention.

What it does: a model that can choose its implementation of attention (those of Hugging Face transformers can) is told
to use `scaled_dot_product_attention`. In all others softmax(query · keyᵀ · scale, masked) · value is looked for in the
graph that torch.compile makes, one call is put in its place, and the rest runs as it is, op by op. Where the mask is
seen to hide nothing but the future, `is_causal=True` takes its place; it is looked at again when torch counts a change
of it (one made through NumPy or `.data` is not counted).

When it applies: the softmax of a product is formed in full, one number for each pair of tokens, and multiplied again.
It does not where the attention weights themselves are given back or used, where something other than scaling, a mask or
a bias happens to the scores, or where the softmax is made in another type than the product.

How results may change: by rounding; dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import ENGINE, Fix, Machine, Root
from profiler_doctor.fixes._attention import Rewriting
from profiler_doctor.fixes._compiling import rewritten

WANTED = "sdpa"
NOTHING = "no attention written out was found in what torch.compile sees of the model, or its weights are used"


def _applies(machine: Machine) -> str | None:
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    choose = getattr(root.module, "set_attn_implementation", None)
    before = getattr(getattr(root.module, "config", None), "_attn_implementation", None)
    if choose is not None and before != WANTED:
        choose(WANTED)
        try:
            yield root.call
        finally:
            choose(before)
        return
    with rewritten(root, Rewriting(), NOTHING) as call:
        yield call


FIX = Fix(
    name="sdpa",
    doc=__doc__,
    cures=("ATT001",),
    snippet="""\
y = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)  # or attn_mask=mask
""",
    changes_numbers="by rounding; dropout draws other random numbers",
    rank=1,
    applies=_applies,
    treat=_treat,
    excludes=ENGINE,
)
