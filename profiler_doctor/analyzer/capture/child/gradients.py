"""How a model's outputs depend on its weights: a treatment may answer rightly and still train wrongly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from profiler_doctor.analyzer.capture.child.leaves import tensors

NOISE_SHARE = 1e-2
"""A gradient that is smaller than this share of all gradients together is judged by that: what is zero in theory (a
bias before a batch norm) is nothing but rounding, and differs by 100 %."""
FACTOR = 100.0
"""Gradients add up many more roundings than outputs do: 1e-6 of all together measured for a convolution in another
memory order, and a hundred times that of one which is zero in theory. What is wrong, not rounded, is wrong by more."""
MOST = 0.25
"""... but never may a quarter of a gradient be another."""

Gradients = Mapping[str, Any]


def gradients(torch: Any, module: Any, output: Any) -> Gradients | None:
    """Name of each parameter that needs a gradient → the gradient of one fixed sum of all outputs; None inside where
    there is none.

    None where no output depends on anything by autograd. Uses up the outputs' graph; no `.grad` is touched.
    """
    depending = [one for one in tensors(torch, output) if one.requires_grad and one.is_floating_point()]
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    if not depending or not weights:
        return None
    with torch.enable_grad():
        total = sum((one.double() * _weighing(torch, one)).sum() for one in depending)
    found = torch.autograd.grad(total, list(weights.values()), allow_unused=True)
    return dict(zip(weights, found, strict=True))


def difference(torch: Any, expected: Gradients | None, found: Gradients | None) -> tuple[float, str]:
    """The largest relative L2 difference of any gradient, and the parameter that it is of."""
    if expected is None:
        return 0.0, ""
    if found is None:
        return math.inf, "the outputs"
    sizes = {name: _norm(torch, gradient) for name, gradient in expected.items()}
    floor = NOISE_SHARE * math.sqrt(sum(size**2 for size in sizes.values()))
    worst, where = 0.0, ""
    for name, gradient in expected.items():
        apart, scale = _apart(torch, gradient, found.get(name)), max(sizes[name], floor)
        error = apart / scale if scale else (math.inf if apart else 0.0)
        if not error <= worst:  # also where it is no number
            worst, where = (math.inf if math.isnan(error) else error), name
    return worst, where


def allowed(tolerance: float) -> float:
    """What gradients may differ by where outputs may differ by `tolerance`."""
    return min(FACTOR * tolerance, max(MOST, tolerance))


def _weighing(torch: Any, output: Any) -> Any:
    """Weights that tell the elements of an output apart, and never cancel out what a loss would not."""
    count = torch.arange(output.numel(), dtype=torch.float64, device=output.device)
    return (1.0 + 0.5 * torch.cos(count)).reshape(output.shape)


def _norm(torch: Any, gradient: Any) -> float:
    return 0.0 if gradient is None else float(_wide(torch, gradient).norm())


def _apart(torch: Any, one: Any, other: Any) -> float:
    if one is None or other is None:
        return max(_norm(torch, one), _norm(torch, other))
    return float((_wide(torch, one) - _wide(torch, other)).norm())


def _wide(torch: Any, gradient: Any) -> Any:
    dense = gradient.detach()
    return (dense if dense.layout is torch.strided else dense.to_dense()).to(torch.float64)
