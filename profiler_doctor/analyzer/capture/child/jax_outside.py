"""What a JAX function changes that is not among its arguments: tracing does that once, and not at each call."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from profiler_doctor.analyzer.capture.child.jax_jitted import own_function
from profiler_doctor.analyzer.capture.child.users_function import PLAIN, Outside

MOST_LOOKED_AT = 1000
"""Items of a list or dict, and numbers of an array, that are held against what they were."""


def why_not_frozen(call: Callable[..., Any]) -> str:
    """How a function changes something outside by its very code, or may write a file; empty: not that can be read."""
    outside = _outside(call)
    if outside is None or outside.writes:
        return outside.writes if outside is not None else ""
    files = [name for name, value in outside.values.items() if isinstance(value, io.IOBase) and _is_written(value)]
    return f"it may write to {files[0]}" if files else ""


def state_outside(call: Callable[..., Any]) -> Mapping[str, Any]:
    """By name what the function reads from outside and could change, as it is now."""
    outside = _outside(call)
    return {name: _mark(value) for name, value in outside.values.items()} if outside is not None else {}


def _outside(call: Callable[..., Any]) -> Outside | None:
    """None: there is no such function, or it is compiled, so that all this is frozen already."""
    function = own_function(call)  # behind jax.grad and its like
    return Outside(None, function) if function is not None and not hasattr(call, "lower") else None


def _is_written(file: io.IOBase) -> bool:
    with suppress(Exception):  # a closed file, or somebody's own
        return file.writable()
    return False


def _mark(value: Any) -> Any:
    """What is another value after a change, and costs little."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, dict):
        return len(value), [(key, _member(one)) for key, one in zip(value, value.values(), strict=False)][
            :MOST_LOOKED_AT
        ]
    if isinstance(value, list | tuple):
        return len(value), [_member(one) for one in value[:MOST_LOOKED_AT]]
    if hasattr(value, "tobytes") and getattr(value, "size", MOST_LOOKED_AT + 1) <= MOST_LOOKED_AT:
        return value.tobytes()
    return len(value) if isinstance(value, set) else id(value)


def _member(value: Any) -> Any:
    return value if isinstance(value, PLAIN) else id(value)
