"""The optimizers that step: how their parameters are grouped, and where they were made."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import Place, own_place
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.facts import OptimizerFacts


class Optimizers:
    """What was seen of them at their first steps."""

    def __init__(self) -> None:
        self._module = import_module("torch.optim.optimizer")
        self._places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()
        self._found: weakref.WeakKeyDictionary[Any, OptimizerFacts] = weakref.WeakKeyDictionary()
        self._told: list[OptimizerFacts] = []

    def install(self) -> tuple[Undo, ...]:
        """Watch optimizers from now on; returns what stops that."""
        handle = self._module.register_optimizer_step_post_hook(self._stepped)
        return replaced(self._module.Optimizer, "__init__", self._making), handle.remove

    def facts(self) -> tuple[OptimizerFacts, ...]:
        """Each of them, in the order of their first steps."""
        return tuple(self._told)

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def made(optimizer: Any, *args: Any, **more: Any) -> None:
            make(optimizer, *args, **more)
            self._places[optimizer] = own_place(sys._getframe(1))

        return made

    def _stepped(self, optimizer: Any, *_call: Any) -> None:
        if optimizer in self._found:
            return
        self._found[optimizer] = self._described(optimizer)
        self._told.append(self._found[optimizer])

    def _described(self, optimizer: Any) -> OptimizerFacts:
        groups = optimizer.param_groups
        tensors = [tensor for group in groups for tensor in group["params"]]
        file, line = self._places.get(optimizer, ("", 0))
        return OptimizerFacts(
            name=type(optimizer).__name__,
            groups=len(groups),
            lone_groups=sum(len(group["params"]) == 1 for group in groups),
            settings=len({_options(group) for group in groups}),
            tensors=len(tensors),
            parameter_bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
            fused=any(group.get("fused") for group in groups),
            foreach=any(group.get("foreach") for group in groups),
            file=file,
            line=line,
        )


def _options(group: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    """A group's options; those that cannot be told from each other cheaply by value, such as tensors, by identity.

    Not its names: they belong to the parameters.
    """
    plain = (bool, int, float, str, type(None), tuple)
    options = ((name, value) for name, value in group.items() if name not in ("params", "param_names", "name"))
    return tuple((name, value if isinstance(value, plain) else id(value)) for name, value in sorted(options))
