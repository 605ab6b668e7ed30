"""What a module keeps from call to call beside its weights: to compare it, and to put it back after a call too many."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from profiler_doctor.analyzer.capture.child.difference import errors
from profiler_doctor.analyzer.capture.child.leaves import NUMBERS, Leaves, flat

CONTAINERS = (list, tuple, dict)
COMPILERS_OWN = "_torchdynamo_"
"""How the names begin that `torch.compile` notes in what it wraps, some of them at its first call."""


def state_of(torch: Any, module: Any, weights: frozenset[str] = frozenset()) -> Leaves:
    """Buffers, plain attributes (numbers, tensors, and lists and dicts of them), and the parameters named."""
    leaves: Leaves = {}
    for name, part in module.named_modules():
        where = f"{name}." if name else ""
        for key, buffer in part._buffers.items():
            leaves |= flat(torch, buffer, f"buffer {where}{key}")
        for key, value in attributes(torch, part):
            leaves |= flat(torch, value, f"attribute {where}{key}")
    for name, weight in module.named_parameters():
        if name in weights:
            leaves |= flat(torch, weight, f"parameter {name}")
    return leaves


class Kept:
    """The state of a module at one moment, which `restore` brings back: the same objects with the same contents."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._buffers = [(part, key, tensor, _clone(torch, tensor)) for part, key, tensor in _buffers(module)]
        self._attributes = [
            (part, key, value, _copy(torch, value))
            for part in module.modules()
            for key, value in attributes(torch, part)
        ]
        self._names = {id(part): frozenset(vars(part)) for part in module.modules()}

    def restore(self) -> None:
        """Undo what calls since then changed; what is unchanged is not touched, not even its version counter."""
        for part, key, tensor, then in self._buffers:
            part._buffers[key] = tensor
            _refill(self._torch, tensor, then)
        for part, key, value, then in self._attributes:
            vars(part)[key] = value
            _refill(self._torch, value, then)
        for part in self._module.modules():
            known = self._names.get(id(part), frozenset())
            for key in [key for key, _ in attributes(self._torch, part) if key not in known]:
                del vars(part)[key]


def attributes(torch: Any, part: Any) -> Iterator[tuple[str, Any]]:
    """The module's own plain attributes: not what torch keeps in every module, and not lists of its weights."""
    for key, value in vars(part).items():
        of_torch = key in _torchs_own(torch.nn.Module) or key.startswith(COMPILERS_OWN)
        if of_torch or isinstance(value, torch.nn.Parameter):
            continue
        if isinstance(value, (*NUMBERS, torch.Tensor)) or (
            isinstance(value, CONTAINERS) and _plain(torch, value, depth=3)
        ):
            yield key, value


def _plain(torch: Any, value: Any, depth: int) -> bool:
    if isinstance(value, CONTAINERS):
        items = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_plain(torch, item, depth - 1) for item in items)
    return isinstance(value, (*NUMBERS, torch.Tensor)) and not isinstance(value, torch.nn.Parameter)


@cache
def _torchs_own(module_class: Any) -> frozenset[str]:
    return frozenset(vars(module_class())) | {"_compiled_call_impl"}


def _buffers(module: Any) -> list[tuple[Any, str, Any]]:
    return [(part, key, buffer) for part in module.modules() for key, buffer in part._buffers.items()]


def _clone(torch: Any, tensor: Any) -> Any:
    return next(iter(flat(torch, tensor).values()))


def _copy(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _clone(torch, value)
    if isinstance(value, list | tuple):
        return type(value)(_copy(torch, item) for item in value) if type(value) in CONTAINERS else copy.copy(value)
    if isinstance(value, dict):
        return {key: _copy(torch, item) for key, item in value.items()}
    return value


def _refill(torch: Any, value: Any, then: Any) -> None:
    """Give `value` the contents it had; tensors in place, lists and dicts item by item."""
    if isinstance(value, torch.Tensor):
        if value.shape != then.shape or not torch.equal(value, then):
            with contextlib.suppress(RuntimeError), torch.inference_mode(value.is_inference()), torch.no_grad():
                value.copy_(then)
    elif isinstance(value, list | dict) and any(errors(torch, flat(torch, then), flat(torch, value)).values()):
        value.clear()
        if isinstance(value, list):
            value.extend(then)
        else:
            value.update(then)
