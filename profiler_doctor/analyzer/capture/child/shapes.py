"""Which shapes a model was called with: an answer that is right for one shape can be wrong for another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MOST_SHAPES = 3
"""So many further kinds of input are compared; a model with a growing cache meets a new one at every call."""
MAX_DEPTH = 4


class Shapes:
    """Remembers the shapes and types of a model's tensors, call by call, until enough of them were seen."""

    def __init__(self) -> None:
        self._seen: set[tuple[Any, ...]] = set()

    def new(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call of these shapes has not been met before. Looks at the tensors' headers alone."""
        shapes = tuple(_shapes((*args, *kwargs.values()), MAX_DEPTH))
        before = len(self._seen)
        self._seen.add(shapes)
        return len(self._seen) > before

    @property
    def enough(self) -> bool:
        """Whether no further call is to be looked at."""
        return len(self._seen) > MOST_SHAPES


def _shapes(values: Iterable[Any], depth: int) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple) and depth:
            yield from _shapes(value, depth - 1)
        elif isinstance(value, Mapping) and depth:
            yield from _shapes(value.values(), depth - 1)
        elif hasattr(value, "shape"):
            yield value.shape, getattr(value, "dtype", None)
