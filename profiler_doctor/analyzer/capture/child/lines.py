"""Which lines of the script call which ops, in one step: asked only when a check has found that something changed."""

from __future__ import annotations

import hashlib
import json
import linecache
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child import control
from profiler_doctor.analyzer.capture.child.compiling import is_own
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.kinds import Root

NOWHERE = ("", 0)
"""An op of a thread that runs none of the script's code: of the backward pass on a GPU, say."""


@dataclass
class Line:
    """What one line calls; `signature` covers the types, shapes and strides of what it calls them with."""

    ops: Counter[str] = field(default_factory=Counter)
    signature: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=8))


class Lines:
    """Conductor: let the cold steps pass, watch `plan.steps` of them, write, end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cold = int(session.plan.options.get("cold", 3))
        self._lines: dict[tuple[str, int], Line] = {}
        self._mode: Any = None
        self._made = -1

    def on_boundary(self, index: int, now_ns: int) -> None:  # noqa: ARG002  # of the protocol
        """Begin, go on, or write and end."""
        if self._session.plan.window:
            return
        if self._mode is None and index >= self._cold:
            self.begin()
        if self._mode is not None:
            self._made += 1
            if self._made >= self._session.plan.steps:
                self.finish()
                self._session.end("done")

    def on_root_call(self, root: Root) -> None:
        """Calls stay as they are."""

    def begin(self) -> None:
        """See every op from now on, below autograd, where the work is."""
        self._mode = _watching(self._seen)
        self._mode.__enter__()

    def finish(self) -> None:
        """Stop, and write what was seen."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.__exit__(None, None, None)
        self._session.write("lines.json", json.dumps(list(self._told())))
        self._session.say("window", file="lines.json", events=len(self._lines), steps=max(self._made, 0))

    def _seen(self, op: str, arguments: Any) -> None:
        place = _own_line(sys._getframe(2))
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = Line()
        line.ops[op] += 1
        line.signature.update(f"{op}{[_shown(each) for each in arguments]}".encode())

    def _told(self) -> Iterator[dict[str, object]]:
        """In the order in which the lines were first reached."""
        for (file, number), line in self._lines.items():
            code = linecache.getline(file, number).strip() if file else ""
            yield {
                "file": os.path.realpath(file) if file else "",
                "line": number,
                "code": code,
                "ops": dict(line.ops),
                "signature": line.signature.hexdigest(),
            }


def _watching(seen: Any) -> Any:
    """A mode in which every op is told before it runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch declares no types here
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen(func.overloadpacket.__name__, args)
            return func(*args, **(kwargs or {}))

    return Watching()  # type: ignore[no-untyped-call]  # as above


def _shown(argument: Any) -> object:
    if not hasattr(argument, "dtype"):
        return None
    strides = tuple(argument.stride()) if hasattr(argument, "stride") and not argument.is_sparse else ()
    return str(argument.dtype), tuple(argument.shape), strides


_owned: dict[CodeType, bool] = {}


def _own_line(frame: FrameType | None) -> tuple[str, int]:
    while frame is not None:
        code = frame.f_code
        own = _owned.get(code)
        if own is None:
            own = _owned[code] = is_own(code.co_filename)
        if own:
            return code.co_filename, frame.f_lineno
        frame = frame.f_back
    return NOWHERE


def begin(session: Session) -> Lines:
    """The conductor of mode `lines`."""
    lines = Lines(session)
    session.finishers.append(lines.finish)
    session.marks.roots.asking = False
    if session.plan.window:
        lines.begin()
    session.listen({control.STOP: lines.finish})
    return lines
