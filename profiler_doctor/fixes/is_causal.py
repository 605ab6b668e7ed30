"""Say that attention is causal instead of passing the mask.

What it does: calls of `scaled_dot_product_attention` whose mask is exactly the causal one (true, or zero, on and below
the diagonal; false, or minus infinity, above it) are made with `is_causal=True` and no mask. A mask is looked at once,
and again when its values change.

When it applies: self-attention of as many queries as keys, whose mask hides nothing but the future. A mask that hides
padding too is passed on as it is.

How results may change: by rounding, because another kernel runs.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._patched import patched


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    from torch.nn import functional

    with patched(functional, "scaled_dot_product_attention", _without_causal_masks):
        yield


def _without_causal_masks(original: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[int, tuple[Any, int, bool]] = {}

    def is_causal_mask(mask: Any) -> bool:
        seen = known.get(id(mask))
        if seen is None or seen[0]() is not mask or seen[1] != _version(mask):
            if len(known) > MOST_MASKS:
                known.clear()
            known[id(mask)] = seen = (weakref.ref(mask), _version(mask), _causal(mask))
        return seen[2]

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **more: Any) -> Any:
        asked = more.get("is_causal", args[1] if len(args) > 1 else False)
        square = query.shape[-2] == key.shape[-2]
        if attn_mask is None or asked or not square or _traced() or not is_causal_mask(attn_mask):
            return original(query, key, value, attn_mask, *args, **more)
        dropout = args[0] if args else more.pop("dropout_p", 0.0)
        more.pop("is_causal", None)
        return original(query, key, value, None, dropout, True, *args[2:], **more)

    return attention


MOST_MASKS = 64
"""A script with more masks than these makes a new one for each call."""


def _version(mask: Any) -> int:
    return -1 if mask.is_inference() else int(mask._version)


def _traced() -> bool:
    import torch

    return bool(torch.compiler.is_compiling())


def _causal(mask: Any) -> bool:
    import torch

    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.requires_grad:
        return False
    if mask.dtype != torch.bool:
        if not bool(((mask == 0) | torch.isneginf(mask)).all()):
            return False
        mask = mask == 0
    expected = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).tril()
    return bool((mask == expected).all())


FIX = Fix(
    name="is-causal",
    doc=__doc__,
    cures=("ATT002",),
    snippet="y = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)\n",
    changes_numbers="by rounding",
    rank=0,
    set_up=_set_up,
)
