"""Put a function of ours in the place of one of torch's, and back again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Undo = Callable[[], None]


def replaced(owner: Any, name: str, by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:
    """Put `by(original)` in the place of an attribute; returns what puts the original back, if it still stands."""
    original = vars(owner)[name]
    stand_in = by(original)
    setattr(owner, name, stand_in)

    def undo() -> None:
        if vars(owner).get(name) is stand_in:
            setattr(owner, name, original)

    return undo
