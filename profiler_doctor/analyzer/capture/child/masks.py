"""Which square masks are alive in the script, and whether they are the causal one: no trace holds a tensor's values."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from profiler_doctor.analyzer.facts import MaskFacts

FEWEST, MOST = 16, 4096
"""Tokens. With fewer a mask costs nothing, with more looking at all pairs takes too long."""
LOW = -1e3
"""What is added to a score so that softmax gives nothing; in practice -1e4 and less."""
EVERY_KIND = 16
"""Kinds of mask (shape and type) that are told apart at most."""


def square_masks(torch: Any) -> tuple[MaskFacts, ...]:
    """Every kind of mask that Python can reach: bool ones, and those of floating types that are causal.

    Of several of one kind the causal one counts. Nothing is changed; what cannot be looked at is left out.
    """
    found: dict[tuple[tuple[int, ...], str], bool] = {}
    with torch.no_grad():
        for tensor in _square(torch):
            kind = (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            if found.get(kind) or (kind not in found and len(found) >= EVERY_KIND):
                continue
            causal = _causal(torch, tensor)
            if causal or tensor.dtype == torch.bool:
                found[kind] = causal
    return tuple(MaskFacts(dims=dims, type=name, causal=causal) for (dims, name), causal in found.items())


def _square(torch: Any) -> Iterator[Any]:
    """Tensors that could be a mask for all samples and heads alike: …, 1, tokens, tokens."""
    for thing in gc.get_objects():
        if type(thing) is not torch.Tensor:  # not isinstance, which would ask a proxy for its class
            continue
        with contextlib.suppress(Exception):  # sparse, nested, or made of another library's memory
            shape, fits = tuple(thing.shape), thing.dtype == torch.bool or thing.is_floating_point()
            alike = len(shape) >= 2 and shape[-1] == shape[-2] and all(extent == 1 for extent in shape[:-2])
            if alike and fits and FEWEST <= shape[-1] <= MOST and not thing.requires_grad and not thing.is_meta:
                yield thing


def _causal(torch: Any, mask: Any) -> bool:
    with contextlib.suppress(Exception):  # as above
        pairs = mask.reshape(mask.shape[-2:])
        seen = pairs if mask.dtype == torch.bool else pairs == 0
        corners = torch.stack([seen[0, 0], seen[-1, 0], ~seen[0, -1]])  # before a look at all pairs
        if not bool(corners.all()) or not torch.equal(seen, torch.ones_like(seen).tril()):
            return False
        return mask.dtype == torch.bool or bool((pairs[~seen] <= LOW).all())
    return False
