"""How far two flat values are apart, and how to say so."""

from __future__ import annotations

import math
from typing import Any

from profiler_doctor.analyzer.capture.child.leaves import Leaves

NOISE_FACTOR = 4.0
"""A difference up to four times that between two untreated runs is the program's own."""
TOLERANCES = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 1e-5,  # measured: 1e-7 to 8e-7 where kernels add in another order
    "complex64": 1e-5,
    "float16": 1e-2,
    "bfloat16": 2e-2,  # measured: 3e-3 to 6e-3
}
"""Relative L2 per tensor, by the coarsest dtype at work. Integers, booleans and plain numbers must be equal."""
TF32_TOLERANCE = 1e-3


def errors(torch: Any, expected: Leaves, found: Leaves) -> dict[str, float]:
    """Path → relative L2 difference; infinite where one side has no such leaf, or one of another kind or shape."""
    paths = dict.fromkeys([*expected, *found])
    return {path: _error(torch, expected.get(path, paths), found.get(path, paths)) for path in paths}


def told(path: str, error: float, expected: Any, found: Any) -> str:
    """The difference at one path, as a phrase."""
    if math.isfinite(error):
        return f"{path} differs by {error:.1e}"
    if expected is None or found is None:
        return f"{path} is {'missing' if found is None else 'new'}"
    was, now = _kind(expected), _kind(found)
    return f"{path} differs" if was == now else f"{path} is {now} where it was {was}"


def dtype_tolerance(torch: Any, leaves: list[Any]) -> float:
    """What the coarsest dtype among these tensors (and under autocast) may differ by."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    dtypes = {tensor.dtype for tensor in tensors}
    devices = {tensor.device.type for tensor in tensors} | {"cpu"}
    dtypes |= {
        torch.get_autocast_dtype(device)
        for device in devices & {"cpu", "cuda", "xpu"}
        if torch.is_autocast_enabled(device)
    }
    coarsest = max((TOLERANCES.get(str(dtype).removeprefix("torch."), 0.0) for dtype in dtypes), default=0.0)
    tf32 = "cuda" in devices and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
    return max(coarsest, TF32_TOLERANCE) if tf32 and torch.float32 in dtypes else coarsest


def inexact(torch: Any, leaf: Any) -> bool:
    """Whether rounding may show in this leaf at all."""
    if isinstance(leaf, torch.Tensor):
        return bool(leaf.is_floating_point() or leaf.is_complex() or leaf.is_quantized)
    return isinstance(leaf, float)


def tells(torch: Any, output: Leaves) -> bool:
    """Whether it holds any number at all: values outside a model's domain give NaN on both sides."""
    tensors = [leaf for leaf in output.values() if isinstance(leaf, torch.Tensor) and leaf.numel()]
    return not tensors or any(bool(torch.isfinite(_wide(torch, tensor)).any()) for tensor in tensors)


def reordered(torch: Any, expected: Leaves, found: Leaves) -> tuple[str, ...]:
    """The paths at which only the order in memory differs."""
    return tuple(
        path
        for path, one in expected.items()
        if isinstance(one, torch.Tensor)
        and isinstance(found.get(path), torch.Tensor)
        and one.layout is torch.strided
        and one.shape == found[path].shape
        and one.stride() != found[path].stride()
    )


def _error(torch: Any, expected: Any, found: Any) -> float:
    tensors = isinstance(expected, torch.Tensor), isinstance(found, torch.Tensor)
    if tensors == (True, True):
        return _tensor_error(torch, expected, found)
    if any(tensors) or type(expected) is not type(found):
        return math.inf
    if isinstance(expected, float):
        both_nan = math.isnan(expected) and math.isnan(found)
        return 0.0 if expected == found or both_nan else abs(found - expected) / (abs(expected) or 1.0)
    return 0.0 if expected == found else math.inf


def _tensor_error(torch: Any, expected: Any, found: Any) -> float:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return math.inf
    with torch.inference_mode(False), torch.no_grad():
        before, after = _wide(torch, expected), _wide(torch, found)
        same = (before == after) | (before.isnan() & after.isnan())
        if bool(same.all()):
            return 0.0
        size = float(torch.where(same, 0, after - before).abs().square().sum().sqrt())
        scale = float(torch.where(before.isfinite(), before, 0).abs().square().sum().sqrt())
    return size / scale if scale and math.isfinite(size) else math.inf


def _wide(torch: Any, tensor: Any) -> Any:
    plain = tensor.detach().clone()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    return plain.to(torch.complex128 if plain.is_complex() else torch.float64)


def _kind(thing: Any) -> str:
    if hasattr(thing, "dtype"):
        return f"{str(thing.dtype).removeprefix('torch.')} {list(thing.shape)}"
    return repr(thing)[:60]
