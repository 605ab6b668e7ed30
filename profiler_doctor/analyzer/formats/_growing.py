"""An array that grows at its end by half its room at a time.

A list of pieces would stay in the heap until the last one is joined, and columns would need twice their size. Room that
was never written takes no memory.
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
        dtype = self.room.dtype
        if self.narrow and len(values) and not (SMALL.min <= values.min() and values.max() <= SMALL.max):
            dtype, self.narrow = np.dtype(np.int64), False
        if after > len(self.room) or dtype != self.room.dtype:
            room = np.empty(max(len(self.room) * 3 // 2, after), dtype)
            room[: self.length] = self.room[: self.length]
            self.room = room
        self.room[self.length : after] = values
        self.length = after

    @property
    def values(self) -> npt.NDArray[Any]:
        """What was added so far; a view."""
        return self.room[: self.length]
