"""Something else in the place of an attribute, for as long as a context lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


@contextmanager
def patched(owner: Any, name: str, by: Callable[[Any], Any]) -> Iterator[None]:
    """`by(the original)` in the place of `owner.name`, named and documented as the original is."""
    original = getattr(owner, name)
    own = name in vars(owner)
    setattr(owner, name, wraps(original)(by(original)))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:  # it is inherited
            delattr(owner, name)
