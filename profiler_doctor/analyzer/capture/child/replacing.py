"""Put a function of ours in the place of one of torch's, and back again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

Undo = Callable[[], None]


def replaced(owner: Any, name: str, by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:
    """Put `by(original)` in the place of an attribute; returns what puts the original back, if it still stands."""
    original = vars(owner)[name]
    stand_in = by(original)
    keep_from_compilers(stand_in, inside=False)
    setattr(owner, name, stand_in)

    def undo() -> None:
        if vars(owner).get(name) is stand_in:
            setattr(owner, name, original)

    return undo


def keep_from_compilers(function: Callable[..., Any], *, inside: bool) -> None:
    """Dynamo leaves the frame alone, and `inside` it everything that it calls. Older torch has no such switch.

    Where torch was not imported there is no Dynamo, and nothing of torch is loaded to find that out.
    """
    if "torch" not in sys.modules:
        return
    with contextlib.suppress(ImportError, AttributeError):
        from torch._C._dynamo import eval_frame

        action = eval_frame._FrameAction
        strategy = eval_frame._FrameExecStrategy(action.SKIP, action.SKIP if inside else action.DEFAULT)
        eval_frame.set_code_exec_strategy(function.__code__, strategy)
