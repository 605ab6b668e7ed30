"""The script's own NVTX ranges, so that they stand in the recorded trace too and can mark steps.

While nothing is recorded a range costs one list operation of ours. On builds of torch without NVTX the calls of
`torch.cuda.nvtx` raise; while we watch they are only ours, so that a script made for a GPU runs on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any

Open = Callable[[str], Any]
Close = Callable[[Any], None]


class Mirror:
    """Copies ranges into the trace that is being recorded."""

    def __init__(self) -> None:
        self._open: Open | None = None
        self.close: Close = lambda _opened: None
        self.on_range: Callable[[str], None] | None = None
        """Told each name; None where no range marks a step."""
        self._local = threading.local()
        self._started: dict[int, Any] = {}
        self._numbers = count(1)
        self.on_recording: list[Callable[[bool], None]] = []
        """Told when a recording begins (True) and before it ends (False)."""

    @property
    def open(self) -> Open | None:
        """Opens a range of this name in the trace; None while nothing is recorded."""
        return self._open

    @open.setter  # noqa: A003  # the property itself
    def open(self, how: Open | None) -> None:
        self._open = how
        for hear in self.on_recording:
            hear(how is not None)

    def push(self, name: str) -> int:
        """A nested range begins on this thread; its depth, from 0."""
        stack = self._stack()
        stack.append(self._opened(name))
        return len(stack) - 1

    def pop(self) -> int:
        """The innermost range of this thread ends; the depth it had, -1 where there was none."""
        stack = self._stack()
        if stack:
            self._closed(stack.pop())
        return len(stack) if stack else 0

    def start(self, name: str) -> int:
        """A range that may end anywhere begins; its handle."""
        number = next(self._numbers)
        self._started[number] = self._opened(name)
        return number

    def end(self, number: int) -> None:
        """The range of this handle ends."""
        self._closed(self._started.pop(number, None))

    def _stack(self) -> list[Any]:
        stack: list[Any] | None = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    def _opened(self, name: str) -> Any:
        if self.on_range is not None:
            self.on_range(name)
        return None if self.open is None else self.open(name)

    def _closed(self, opened: Any) -> None:
        if opened is not None:
            self.close(opened)


mirror = Mirror()


def watch_torch(torch: Any) -> None:
    """Mirror `torch.cuda.nvtx`."""
    nvtx = torch.cuda.nvtx
    missing = type(nvtx._nvtx).__name__ == "_NVTXStub"
    push, pop, start, end = nvtx.range_push, nvtx.range_pop, nvtx.range_start, nvtx.range_end

    def range_push(msg: str) -> int:
        depth = mirror.push(msg)
        return depth if missing else push(msg)

    def range_pop() -> int:
        depth = mirror.pop()
        return depth if missing else pop()

    def range_start(msg: str) -> int:
        number = mirror.start(msg)
        return number if missing else _pair(start(msg), number)

    def range_end(range_id: int) -> None:
        mirror.end(_paired.pop(range_id, range_id))
        if not missing:
            end(range_id)

    nvtx.range_push, nvtx.range_pop, nvtx.range_start, nvtx.range_end = range_push, range_pop, range_start, range_end
    if missing:
        nvtx.mark = lambda _msg: None


def watch_nvtx(nvtx: Any) -> None:
    """Mirror the `nvtx` package: its functions, `annotate`, and the methods of its domains."""
    inner = nvtx.nvtx
    for name, stand_in in (
        ("push_range", _pushing(inner.push_range)),
        ("pop_range", _popping(inner.pop_range)),
        ("start_range", _starting(inner.start_range)),
        ("end_range", _ending(inner.end_range)),
    ):
        setattr(nvtx, name, stand_in)
        setattr(inner, name, stand_in)
    _watch_annotate(inner.annotate)
    for domain in (getattr(inner, "Domain", None), getattr(inner, "DummyDomain", None)):
        if domain is not None:
            domain.push_range = _pushing_in_domain(domain.push_range)
            domain.pop_range = _popping(domain.pop_range)
            domain.get_event_attributes = _named_attributes(domain.get_event_attributes)


_paired: dict[int, int] = {}


def _pair(real: int, ours: int) -> int:
    _paired[real] = ours
    return real


def _pushing(push: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(push)
    def push_range(message: Any = None, *args: Any, **more: Any) -> Any:
        mirror.push(str(message or ""))
        return push(message, *args, **more)

    return push_range


def _popping(pop: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(pop)
    def pop_range(*args: Any, **more: Any) -> Any:
        mirror.pop()
        return pop(*args, **more)

    return pop_range


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    def start_range(message: Any = None, *args: Any, **more: Any) -> Any:
        real = start(message, *args, **more)
        return _Started((real, mirror.start(str(message or ""))))

    return start_range


def _ending(end: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(end)
    def end_range(range_id: Any) -> Any:
        if not isinstance(range_id, _Started):
            return end(range_id)
        real, ours = range_id
        mirror.end(ours)
        return end(real)

    return end_range


class _Started(tuple[Any, int]):
    """What our `start_range` gives out: the package's own handle, and ours."""

    __slots__ = ()


class _Attributes:
    """Stands in for a range's attributes where no tool is attached and the package makes none: the name is enough."""

    def __init__(self, message: str) -> None:
        self.message = message


def _named_attributes(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def get_event_attributes(domain: Any, message: Any = None, *args: Any, **more: Any) -> Any:
        made = make(domain, message, *args, **more)
        return _Attributes(str(message or "")) if made is None else made

    return get_event_attributes


def _pushing_in_domain(push: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(push)
    def push_range(domain: Any, attributes: Any = None, **more: Any) -> Any:
        message = more.get("message") or getattr(attributes, "message", None) or ""
        mirror.push(str(getattr(message, "string", message)))
        if isinstance(attributes, _Attributes):
            return None
        return push(domain, attributes, **more)

    return push_range


def _watch_annotate(annotate: Any) -> None:
    begin, enter, leave, decorate = annotate.__init__, annotate.__enter__, annotate.__exit__, annotate.__call__

    @wraps(begin)
    def named(self: Any, message: Any = None, *args: Any, **more: Any) -> None:
        self._mirrored_name = message
        begin(self, message, *args, **more)

    @wraps(enter)
    def entered(self: Any) -> Any:
        mirror.push(str(self._mirrored_name or ""))
        return enter(self)

    @wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        mirror.pop()
        return leave(self, *error)

    @wraps(decorate)
    def decorated(self: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        return _mirrored(decorate(self, function), str(self._mirrored_name or function.__name__))

    annotate.__init__, annotate.__enter__, annotate.__exit__ = named, entered, left
    annotate.__call__ = decorated


def _mirrored(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        mirror.push(name)
        try:
            return function(*args, **kwargs)
        finally:
            mirror.pop()

    return inner
