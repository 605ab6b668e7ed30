"""What stands in the place of an attention that was written out: one call of torch's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profiler_doctor.fixes._attention_graph import HIDING

Tensor = Any
MaskOf = tuple[str, Tensor, float]
"""Kind (`add`, `hide` where it is true, `show` where it is true), the tensor, and the factor or the value."""
RANK = 4
"""Batch, heads, tokens, features: with fewer dimensions torch's fused kernels are not used."""


def attend(
    query: Tensor, key: Tensor, value: Tensor, masks: Sequence[MaskOf], how: tuple[float, float, bool, bool]
) -> Tensor:
    """Softmax(scale · query · keyᵀ, masked) · value, for tensors of (…, tokens, features).

    `how`: scale, share of the weights dropped, whether each token sees itself and what is before it (there are then no
    masks), and whether a token may see nothing, which makes its output NaN as it does where attention is written out.
    """
    from torch.nn import functional

    scale, dropout, causal, blind = how
    mask = combined(masks, query.dtype) if masks else None
    query, key, value = _same_batch(query, key, value, mask)
    rank = query.dim()
    query, key, value = (_last_dim_dense(_lifted(tensor)) for tensor in (query, key, value))
    output = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
    )
    for _ in range(RANK - rank):
        output = output.squeeze(0)
    if mask is None or not blind:
        return output
    hidden = ~mask if mask.dtype == _bool() else mask == -math.inf
    return output.masked_fill(hidden.all(-1, keepdim=True), math.nan)


def attend_in_layer(*given: Any, **how: Any) -> tuple[Tensor, None]:
    """The call that nn.MultiheadAttention makes, without its weights; a token that may see nothing is NaN as before."""
    from torch.nn import functional

    output, _ = functional.multi_head_attention_forward(*given, **{**how, "need_weights": False})
    hidden = _hidden_in_layer(how["attn_mask"], how["key_padding_mask"], heads=given[4])
    if hidden is None:
        return output, None
    blind = hidden.all(-1)
    blind = blind.any(1).mT if output.dim() > 2 else blind.flatten(0, -2).any(0)  # (tokens, batch), or tokens alone
    return output.masked_fill(blind.unsqueeze(-1), math.nan), None


def _hidden_in_layer(mask: Tensor | None, padding: Tensor | None, heads: int) -> Tensor | None:
    """What is hidden, (batch, heads, tokens, keys) or of sizes that broadcast to it; None: nothing."""
    found = None
    for given in (mask, padding):
        if given is None:
            continue
        hidden = given if given.dtype == _bool() else given == -math.inf
        if given is padding:
            hidden = hidden[..., None, None, :] if hidden.dim() > 1 else hidden[None, None, None]
        else:
            hidden = hidden.unflatten(0, (-1, heads)) if hidden.dim() > 2 else hidden[None, None]
        found = hidden if found is None else found | hidden
    return found


def combined(masks: Sequence[MaskOf], dtype: Any) -> Tensor:
    """All masks in one: where it is true scores count; or, where one is not just that, what is added to them."""
    import torch

    if all(kind != "add" and value == -math.inf for kind, _, value in masks):
        seen = [tensor if kind == "show" else ~tensor for kind, tensor, _ in masks]
        while len(seen) > 1:
            seen[:2] = [seen[0] & seen[1]]
        return seen[0]
    total = torch.zeros((1, 1), dtype=dtype, device=masks[0][1].device)
    for kind, tensor, number in masks:
        if kind == "add":
            total = total + (tensor if number == 1 else tensor * number)
        else:
            total = total.masked_fill(~tensor if kind == "show" else tensor, number)
    return total


def sees(mask: Tensor) -> str:
    """What a mask leaves to see: `causal` (each token itself and what is before it), `some` (all tokens see something)
    or `none` (there are tokens that may see nothing)."""
    import torch

    shown, hidden = (mask, ~mask) if mask.dtype == torch.bool else (mask == 0, mask <= HIDING)
    if bool(hidden.all(-1).any()):
        return "none"
    rows, columns = hidden.shape[-2:]
    if rows != columns or rows == 1 or not bool((shown | hidden).all()):
        return "some"
    future = torch.ones(rows, columns, dtype=torch.bool, device=mask.device).triu(1)
    return "causal" if bool((hidden == future).all()) else "some"


def _same_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> list[Tensor]:
    """The three of one shape but for tokens and features: a fused kernel does not repeat heads by itself."""
    import torch

    tensors = [query, key, value]
    batches = [tensor.shape[:-2] for tensor in tensors if tensor.dim() > 2]
    masks = [mask.shape[:-2]] if mask is not None else []
    batch: Any = torch.broadcast_shapes(*batches, *masks)  # type: ignore[no-untyped-call]
    return [tensor if tensor.shape[:-2] == batch else tensor.expand(*batch, *tensor.shape[-2:]) for tensor in tensors]


def _lifted(tensor: Tensor) -> Tensor:
    while tensor.dim() < RANK:
        tensor = tensor.unsqueeze(0)
    return tensor


def _last_dim_dense(tensor: Tensor) -> Tensor:
    """Features side by side, as the fused kernels ask for: keys may come from a transposed tensor."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _bool() -> Any:
    import torch

    return torch.bool
