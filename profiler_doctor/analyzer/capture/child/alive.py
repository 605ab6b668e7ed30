"""What the script's own variables hold between two steps: tensors, the autograd graphs behind them, tiny numbers.

Looked at some steps apart, at boundaries, where no step is under way: for the first time before the steps are timed, so
that a script of twenty steps is long enough, and a step later, to know what one step adds. Only what a variable
of a function under way holds is looked at, itself, in a list or dict of its, or as an attribute: nothing of the
script's is called.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import own_frames, short
from profiler_doctor.analyzer.facts import GrowthFacts, SubnormalFacts

APART = (1, 4, 4, 16)
"""Steps between two looks. Four fit into the longest warm-up, for a script may end while it is recorded; the fifth
tells a graph that grows from one that is let go now and then, such as of a sum over micro-batches.
"""
FEWEST = 4
"""Looks; fewer could take a graph whose size changes with its input for one that grows."""
MOST_NODES = 20_000
"""Autograd nodes that are counted; a graph of more grows all the same."""
MOST_HELD = 2_000
"""Members of one container."""
MOST_TENSORS = 400
SAMPLED = 65_536
"""Numbers of a tensor that are looked at."""
LEAST_ELEMENTS = 1024
LEAST_SHARE = 0.01
"""RULES.md, PRC007."""
SHOWN = 8


@dataclass(frozen=True)
class _Held:
    """One variable, and the tensors in it."""

    name: str
    frame: FrameType
    tensors: list[Any]


@dataclass(frozen=True)
class _Look:
    step: int
    nodes: dict[str, int]
    bytes: dict[str, int]


class Alive:
    """The looks and what they tell."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._looks: list[_Look] = []
        self.growth: GrowthFacts | None = None
        self.subnormals: tuple[SubnormalFacts, ...] = ()

    def look(self, step: int) -> None:
        """Look at what is alive as step `step` begins."""
        made = len(self._looks)
        if not made or (made <= len(APART) and step >= self._looks[-1].step + APART[made - 1]):
            with contextlib.suppress(Exception):  # variables can be anything; a look that fails tells nothing, no more
                self._look(step)

    def look_for_tiny(self) -> None:
        """Look at the numbers themselves, once."""
        with contextlib.suppress(Exception):  # as above
            self.subnormals = self._tiny(list(self._held()))

    def _look(self, step: int) -> None:
        held = list(self._held())
        seen = _Look(
            step,
            {one.name: _nodes(one.tensors) for one in held},
            {one.name: sum(map(_bytes, one.tensors)) for one in held},
        )
        self._looks.append(seen)
        if len(self._looks) >= FEWEST:
            self.growth = _growth(self._looks, held)

    def _held(self) -> Iterator[_Held]:
        for frame in own_frames(sys._getframe(1)):
            for name, value in list(frame.f_locals.items()):
                for path, tensors in self._tensors_of(name, value):
                    yield _Held(path, frame, tensors)

    def _tensors_of(self, name: str, value: Any) -> Iterator[tuple[str, list[Any]]]:
        """The variable itself and its attributes, as far as they hold tensors."""
        if found := self._in(value):
            yield name, found
        elif issubclass(type(value), self._torch.nn.Module):
            yield from ((f"{name}.{path}", [weight]) for path, weight in value.named_parameters())
        elif issubclass(type(value), self._torch.optim.Optimizer):
            states = list(value.state.values())
            for key in {key for state in states for key in state}:
                if moments := [state[key] for state in states if self._is_tensor(state.get(key))]:
                    yield f"{name}.state[{key!r}]", moments
        for attribute, inner in list(_attributes(value).items()):
            if not attribute.startswith("_") and (found := self._in(inner)):
                yield f"{name}.{attribute}", found

    def _in(self, value: Any) -> list[Any]:
        """A tensor, or those in a list, tuple, deque or dict."""
        if self._is_tensor(value):
            return [value]
        members = value.values() if type(value) is dict else value if type(value) in (list, tuple, deque) else ()
        return [one for one in list(members)[-MOST_HELD:] if self._is_tensor(one)]

    def _is_tensor(self, value: Any) -> bool:
        return issubclass(type(value), self._torch.Tensor)

    def _tiny(self, held: list[_Held]) -> tuple[SubnormalFacts, ...]:
        found: dict[int, SubnormalFacts] = {}
        every = [(one.name, tensor) for one in held for tensor in one.tensors][:MOST_TENSORS]
        for name, tensor in every:
            share = self._tiny_share(tensor)
            if share > LEAST_SHARE:
                found.setdefault(id(tensor), SubnormalFacts(holder=name, elements=tensor.numel(), share=share))
        return tuple(sorted(found.values(), key=lambda one: -one.share * one.elements)[:SHOWN])

    def _tiny_share(self, tensor: Any) -> float:
        torch = self._torch
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if not plain or tensor.device.type != "cpu" or tensor.numel() < LEAST_ELEMENTS:
            return 0.0
        if tensor.dtype not in (torch.float32, torch.float64) or not tensor.is_contiguous():
            return 0.0
        with torch.no_grad():
            some = tensor.detach().view(-1)[:: max(1, tensor.numel() // SAMPLED)].abs()
            tiny = (some > 0) & (some < torch.finfo(tensor.dtype).tiny)
            return float(tiny.to(torch.float32).mean())


def _attributes(value: Any) -> dict[str, Any]:
    """An object's own, past whatever its class makes of attribute access."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _nodes(tensors: list[Any]) -> int:
    """How many autograd nodes the tensors hold, at most MOST_NODES."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting and len(seen) < MOST_NODES:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return len(seen)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _growth(looks: list[_Look], held: list[_Held]) -> GrowthFacts:
    """Of the variable whose graph grew most in the time in which it grew less; where none did, of the one whose
    tensors did. A sum may begin as a plain number, which holds nothing.
    """
    first, next_one, *_, between, now = looks
    names = {one.name for one in held if one.name in between.nodes}
    grown = max(
        names,
        key=lambda name: (
            min(now.nodes[name] - between.nodes[name], between.nodes[name] - first.nodes.get(name, 0)),
            now.bytes[name] - first.bytes.get(name, 0),
        ),
        default="",
    )
    frame = next((one.frame for one in held if one.name == grown), None)
    file, line = where_it_grows(frame, grown) if frame is not None else ("", 0)
    return GrowthFacts(
        steps=now.step - first.step,
        steps_between=between.step - first.step,
        nodes_in_one_step=(
            next_one.nodes.get(grown, 0) - first.nodes.get(grown, 0) if next_one.step == first.step + 1 else None
        ),
        nodes_before=first.nodes.get(grown, 0),
        nodes_between=between.nodes.get(grown, 0),
        nodes_after=now.nodes.get(grown, 0),
        bytes_before=first.bytes.get(grown, 0),
        bytes_after=now.bytes.get(grown, 0),
        holder=grown,
        file=file,
        line=line,
    )


def where_it_grows(frame: FrameType, name: str) -> tuple[str, int]:
    """The line of the function that adds to the variable, told by its text; else the line that is under way.

    What a module holds may grow in any of its functions.
    """
    code, word = frame.f_code, re.escape(name)
    adds = re.compile(rf"(?<![\w.]){word}(?:\[[^]]*\])?\s*(?:\+=|=(?!=).*(?<![\w.]){word}\b|\.(?:append|extend|add)\()")
    file = code.co_filename
    own = sorted({line for *_, line in code.co_lines() if line})
    elsewhere = range(1, len(linecache.getlines(file)) + 1) if code.co_name == "<module>" else ()
    for number in (*own, *elsewhere):
        if adds.search(linecache.getline(file, number)):
            return short(file), number
    return short(file), frame.f_lineno
