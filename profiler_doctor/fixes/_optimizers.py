"""Optimizers made with another implementation than they would choose: for the fused and the foreach fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

from profiler_doctor.analyzer.kinds import Machine
from profiler_doctor.fixes._patched import patched

CHOICES = ("fused", "foreach")


def trains(machine: Machine) -> str | None:
    """Why an optimizer fix does not apply: the words that `Fix.applies` gives."""
    return None if machine.training else "the script does not train"


@contextmanager
def made_with(choice: str) -> Iterator[None]:
    """Every optimizer of torch's that knows `choice` is made with it; a script's own True for either choice stays."""
    from torch import optim

    with ExitStack() as stack:
        for kind in vars(optim).values():
            if isinstance(kind, type) and choice in signature(kind).parameters:
                stack.enter_context(patched(kind, "__init__", lambda original: _choosing(original, choice)))
        yield


def _choosing(original: Callable[..., None], choice: str) -> Callable[..., None]:
    expected = signature(original)

    def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        given = expected.bind(self, params, *args, **kwargs).arguments
        params = [_listed(one) for one in params]  # a generator could not be gone through a second time
        if not any(given.get(name) for name in (*CHOICES, "differentiable")) and _plain(params):
            kwargs = {**kwargs, choice: True}
        original(self, params, *args, **kwargs)

    return init


def _listed(given: Any) -> Any:
    """A weight as it is, a group with its weights in a list."""
    if not isinstance(given, dict) or hasattr(given["params"], "requires_grad"):
        return given
    return {**given, "params": list(given["params"])}


def _plain(params: Sequence[Any]) -> bool:
    """Whether all weights are of kinds that each implementation knows; a step would fail where they are not."""
    groups = [one["params"] if isinstance(one, dict) else one for one in params]
    groups = [[group] if hasattr(group, "requires_grad") else group for group in groups]
    return all(isinstance(group, Sequence) and all(map(_known, group)) for group in groups)


def _known(weight: Any) -> bool:
    return isinstance(weight, Sequence) or (weight.is_floating_point() and weight.device.type in ("cpu", "cuda", "xpu"))
