"""Tensors inside the lists, tuples and dicts that models take and give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def replaced(value: Any, tensor: type, by: Callable[[Any], Any]) -> Any:
    """The same structure with `by(t)` in the place of every tensor; what holds no tensor is the same object still."""
    if isinstance(value, tensor):
        return by(value)
    if isinstance(value, dict):
        return _kept(value, {key: replaced(item, tensor, by) for key, item in value.items()})
    if isinstance(value, tuple | list):
        items = [replaced(item, tensor, by) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _kept(old: dict[Any, Any], new: dict[Any, Any]) -> Any:
    """The new items in a mapping of the old one's type (an ordered dict, a model's own output class)."""
    if all(new[key] is item for key, item in old.items()):
        return old
    return (
        new if type(old) is dict else type(old)(**new) if all(isinstance(key, str) for key in new) else type(old)(new)
    )
