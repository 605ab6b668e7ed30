"""The script's own tracebacks, as they would look without us: our frames are taken out before they are printed."""

from __future__ import annotations

import dis
import os
import sys
import traceback
from functools import lru_cache
from pathlib import Path
from types import CodeType, TracebackType

OURS = str(Path(__file__).parent.parent) + os.sep


def keep_ours_out() -> None:
    """Print an uncaught exception without our frames; whatever prints it now goes on doing so."""
    show = sys.excepthook

    def show_without_ours(kind: type[BaseException], error: BaseException, trace: TracebackType | None, /) -> None:
        try:
            _clean_chain(error)
            trace = error.__traceback__ if trace is not None else None
        finally:
            show(kind, error, trace)

    sys.excepthook = show_without_ours


def last_place(error: BaseException) -> str:
    """File and line where an exception of ours was raised, for the message to our own process."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _clean_chain(error: BaseException | None) -> None:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = _without_ours(error.__traceback__)
        waiting += [error.__cause__, error.__context__]


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    entries: list[TracebackType] = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for place in range(len(entries) - 1, -1, -1):
        if _is_ours(entries[place]):
            continue
        followed_by_us = place + 1 < len(entries) and _is_ours(entries[place + 1])
        kept = _relinked(entries[place], kept, followed_by_us)
    return kept


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(OURS)


def _relinked(entry: TracebackType, following: TracebackType | None, led_to_us: bool) -> TracebackType:
    """The entry, pointing to the one after ours; where torch's dispatch led to us, its line without us."""
    frame, lasti, line = entry.tb_frame, entry.tb_lasti, entry.tb_lineno
    plain = following is not None and following.tb_frame.f_code.co_name == "_call_impl"
    if led_to_us and plain and frame.f_code.co_name == "_wrapped_call_impl":
        lasti, line = _plain_call(frame.f_code) or (lasti, line)
    return TracebackType(following, frame, lasti, line)


@lru_cache(maxsize=4)
def _plain_call(code: CodeType) -> tuple[int, int] | None:
    """Offset and line of the call to `self._call_impl` in torch's `_wrapped_call_impl`."""
    reached = False
    for instruction in dis.get_instructions(code):
        reached = reached or instruction.argval == "_call_impl"
        if reached and instruction.positions is not None and instruction.opname.startswith("CALL"):
            return instruction.offset, instruction.positions.lineno or code.co_firstlineno
    return None
