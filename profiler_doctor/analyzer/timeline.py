"""The recorded window, thinned out so that it can be drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One line of work, drawn: slices in parallel lists."""

    name: str
    kind: str
    """`stream` of a device or `thread` of the host."""
    busy_ns: int
    """Union of all its slices, drawn or not."""
    starts_ns: tuple[int, ...]
    """From the timeline's start."""
    durs_ns: tuple[int, ...]
    names: tuple[int, ...]
    """Places in the timeline's `names`; -1: several short ones, drawn as one."""
    depths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The recorded window to look at: thinned out, so nothing is to be counted in it."""

    start_ns: int
    end_ns: int
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    left_out: int
    """Slices that are not drawn by themselves."""
