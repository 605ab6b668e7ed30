"""Let the model's attention be one call of torch's fused attention.

What it does: a model that can choose its implementation of attention (those of Hugging Face transformers can) is told
to use `scaled_dot_product_attention`. Attention written out in a script's own code has to be rewritten there.

When it applies: the softmax of a product is formed in full, one number for each pair of tokens, and multiplied again.
It does not where the attention weights themselves are asked for.

How results may change: by rounding; dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable

WANTED = "sdpa"


def _applies(machine: Machine) -> str | None:
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    choose = getattr(root.module, "set_attn_implementation", None)
    if choose is None:
        raise Unsuitable("the model cannot choose its attention; what is written out by hand is rewritten by hand")
    before = getattr(root.module.config, "_attn_implementation", None)
    if before == WANTED:
        raise Unsuitable("the model uses it already")
    choose(WANTED)
    try:
        yield root.call
    finally:
        choose(before)


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
)
