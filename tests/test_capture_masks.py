"""Which masks are alive, and whether they are causal: told of real tensors."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture.child.masks import square_masks
from profiler_doctor.analyzer.facts import MaskFacts

torch = pytest.importorskip("torch")


def told(*dims: int, kind: str = "bool") -> bool | None:
    """What is said of the mask of these dims and type; None for nothing."""
    return {(mask.dims, mask.type): mask.causal for mask in square_masks(torch)}.get((dims, kind))


def test_the_lower_triangle_is_causal_and_a_hole_in_it_is_not() -> None:
    causal = torch.ones(1, 1, 37, 37, dtype=torch.bool).tril()
    holed = torch.ones(38, 38, dtype=torch.bool).tril()
    holed[20, 5] = False

    assert told(*causal.shape) is True
    assert told(*holed.shape) is False


def test_a_float_mask_must_hide_what_comes_later() -> None:
    hiding = torch.full((39, 39), float("-inf")).triu(1)
    shading = torch.full((41, 41), -1.0).triu(1)

    assert told(*hiding.shape, kind="float32") is True
    assert told(*shading.shape, kind="float32") is None


def test_masks_of_samples_small_ones_and_weights_are_not_looked_at() -> None:
    kept = [
        torch.ones(2, 43, 43, dtype=torch.bool).tril(),
        torch.ones(15, 15, dtype=torch.bool).tril(),
        torch.zeros(47, 47, requires_grad=True),
    ]

    seen = square_masks(torch)

    assert not {mask.dims for mask in seen} & {tuple(tensor.shape) for tensor in kept}


def test_of_two_of_one_kind_the_causal_one_counts() -> None:
    kept = [torch.ones(53, 53, dtype=torch.bool), torch.ones(53, 53, dtype=torch.bool).tril()]

    assert MaskFacts(dims=tuple(kept[0].shape), type="bool", causal=True) in square_masks(torch)
