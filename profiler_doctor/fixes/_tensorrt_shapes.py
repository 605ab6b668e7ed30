"""The range of input shapes that one TensorRT engine is built for, from the shapes that the script was seen to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Extent:
    """The sizes that one input may have, axis by axis."""

    least: Shape
    usual: Shape
    """What the engine's kernels are chosen for."""
    most: Shape

    @property
    def axes(self) -> tuple[int, ...]:
        """Those of more than one size."""
        return tuple(axis for axis, pair in enumerate(zip(self.least, self.most, strict=True)) if pair[0] != pair[1])

    def holds(self, shape: Sequence[int]) -> bool:
        """Whether an input of this shape is within it."""
        within = len(shape) == len(self.usual)
        return within and all(low <= size <= high for low, size, high in zip(self.least, shape, self.most, strict=True))

    def __str__(self) -> str:
        parts = [self.least, self.usual, self.most] if self.axes else [self.usual]
        return "..".join("x".join(map(str, shape)) or "scalar" for shape in parts)


def extents(shapes: Sequence[Shape], signatures: Sequence[str] = ()) -> tuple[Extent, ...]:
    """Of each input, from the call at hand, whose shapes are the usual ones, and from calls that were seen before.

    `signatures`: "8x3x96x96 8", a call each; those of other numbers of inputs or axes are of another engine.
    """
    ranks = [len(shape) for shape in shapes]
    seen = [call for call in map(_parsed, signatures) if [len(shape) for shape in call] == ranks]
    return tuple(_extent(place, shape, seen) for place, shape in enumerate(shapes))


def dynamic_axes(torch: Any, ranges: Sequence[Extent]) -> Any:
    """What the exporter is told of a module that takes a row of tensors; None where nothing varies."""
    if not any(extent.axes for extent in ranges):
        return None
    return (tuple(dict.fromkeys(extent.axes, torch.export.Dim.DYNAMIC) for extent in ranges),)


def _extent(place: int, shape: Shape, seen: Sequence[Sequence[Shape]]) -> Extent:
    sizes = list(zip(*[shape, *(call[place] for call in seen)], strict=True))
    return Extent(tuple(map(min, sizes)), tuple(shape), tuple(map(max, sizes)))


def _parsed(signature: str) -> tuple[Shape, ...]:
    words = signature.split()
    return tuple(() if word == "scalar" else tuple(int(size) for size in word.split("x")) for word in words)
