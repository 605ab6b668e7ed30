"""What a model takes, gives and keeps, laid out flat: a path for every tensor and every number in it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_DEPTH = 8
MAX_LEAVES = 5000
"""Beyond these a structure is somebody's data set, not a model's output."""
NUMBERS = (bool, int, float, complex, str, bytes, type(None))

Leaves = dict[str, Any]
"""Path → a tensor's private copy, or a number, or what kind of thing stands there."""


def flat(torch: Any, value: Any, path: str = "") -> Leaves:
    """Every leaf of a nested value, copied now: what happens to the value later is not seen.

    Containers leave a leaf that names their type and length, so that two flat values differ where structures do.
    """
    return {place: _kept(torch, leaf) for place, leaf in _walk(torch, value, path)}


def tensors(torch: Any, value: Any) -> list[Any]:
    """The tensors themselves that stand anywhere in a nested value."""
    return [leaf for _, leaf in _walk(torch, value, "") if isinstance(leaf, torch.Tensor)]


def duplicate(torch: Any, value: Any, also: Iterable[Any] = ()) -> Any:
    """A deep copy. Tensors that share memory share it in the copy too; results of autograd become leaves.

    `also`: values inside `value` where such results hide (a module's attributes), because modules are not entered.

    Raises:
        Exception: whatever an object in it raises when it cannot be copied.
    """
    memo: dict[int, Any] = {}
    for _, leaf in _walk(torch, (value, *also), ""):
        if isinstance(leaf, torch.Tensor) and not leaf.is_leaf:
            memo[id(leaf)] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
    return copy.deepcopy(value, memo)


def perturb(torch: Any, value: Any, negate: bool) -> int:
    """Other values of the same shapes, dtypes and ranges, written into the tensors of `value` itself.

    Floating-point tensors are turned round, shrunk and (where `negate`) negated and shifted, so that a branch on a
    sign, a sum or an order goes the other way; integers and booleans are turned round only, so that an index stays
    one. Returns how many tensors changed.
    """
    changed = 0
    for _, leaf in _walk(torch, value, ""):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            with torch.inference_mode(leaf.is_inference()), torch.no_grad():
                other = _other_values(leaf, negate)
                differs = not torch.equal(other, leaf)
                leaf.copy_(other)
            changed += differs
    return changed


def _walk(torch: Any, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Paths and leaves themselves, depth first; what was met before is not entered again."""
    waiting, seen, count = [(path, value, 0)], set(), 0
    while waiting and count < MAX_LEAVES:
        place, item, depth = waiting.pop()
        count += 1
        inside = None if depth == MAX_DEPTH or id(item) in seen else _inside(torch, item)
        if inside is None:
            yield place, item
            continue
        seen.add(id(item))
        yield f"{place} ({type(item).__name__})", len(inside)
        waiting += [(f"{place}{key}", part, depth + 1) for key, part in reversed(inside)]


def _inside(torch: Any, item: Any) -> list[tuple[str, Any]] | None:
    """The parts of a container, None for a leaf."""
    if isinstance(item, Mapping):
        return [(f"[{key!r}]", part) for key, part in item.items()]
    if isinstance(item, list | tuple):
        return [(f"[{index}]", part) for index, part in enumerate(item)]
    whole = (*NUMBERS, torch.Tensor, torch.nn.Module, type)
    if isinstance(item, whole) or callable(item) or not hasattr(item, "__dict__"):
        return None
    return [(f".{key}", part) for key, part in vars(item).items()]


def _kept(torch: Any, leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        with torch.inference_mode(leaf.is_inference()), torch.no_grad():
            return leaf.detach().clone()
    if isinstance(leaf, NUMBERS):
        return leaf
    if type(leaf).__module__ == "numpy":
        return _from_numpy(torch, leaf)
    return f"a {type(leaf).__name__}"


def _from_numpy(torch: Any, leaf: Any) -> Any:
    try:
        return torch.as_tensor(leaf).clone()
    except (TypeError, ValueError, RuntimeError):
        return f"a {type(leaf).__name__}"


def _other_values(tensor: Any, negate: bool) -> Any:
    turned = tensor.flip([axis for axis, size in enumerate(tensor.shape) if size > 1])
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return turned
    return turned * -0.75 - 0.125 if negate else turned * 0.75
