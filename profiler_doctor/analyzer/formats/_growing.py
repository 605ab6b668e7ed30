"""An array that grows at its end, where it lies.

A list of pieces would stay in the heap until the last one is joined, and columns would need twice their size. So would
copies into larger and larger arrays, each of whose pages has to be asked of the system again; large arrays that are
resized only get more pages, so the room can grow in small steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FIRST_ROOM = 1 << 10
SMALL = np.iinfo(np.int32)


class Growing:
    """Numbers of one dtype. Whole numbers are kept in 32 bits until one does not fit."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        whole = np.dtype(dtype) == np.int64
        self.room: npt.NDArray[Any] = np.empty(FIRST_ROOM, np.int32 if whole else dtype)
        self.narrow = whole
        self.length = 0

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end."""
        after = self.length + len(values)
        if self.narrow and len(values) and not (SMALL.min <= values.min() and values.max() <= SMALL.max):
            self.narrow = False
            self._move(after, np.int64)
        elif after > len(self.room):
            self._grow(after)
        self.room[self.length : after] = values
        self.length = after

    def _grow(self, least: int) -> None:
        try:
            self.room.resize(max(len(self.room) * 9 // 8, least))
        except ValueError:  # somebody still looks at it
            self._move(least, self.room.dtype)

    def _move(self, least: int, dtype: npt.DTypeLike) -> None:
        room = np.empty(max(len(self.room) * 9 // 8, least), dtype)
        room[: self.length] = self.room[: self.length]
        self.room = room

    @property
    def values(self) -> npt.NDArray[Any]:
        """What was added so far; a view."""
        return self.room[: self.length]
