"""A trace or a script of the model, frozen: what the TorchScript fixes have in common."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def frozen_trace(module: Any, tensors: tuple[Any, ...]) -> Any:
    """The ops of one call as a graph with the weights in it."""
    import torch

    with quiet():
        # the comparison of a trial holds it to other values; torch's own check would run the model three times more
        traced: Any = torch.jit.trace(module, tensors, check_trace=False, strict=False)  # type: ignore[no-untyped-call]
        return torch.jit.freeze(traced)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch has to say of TorchScript's age and of values that a trace makes constants."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def without_gradients(call: Callable[..., Any]) -> Callable[..., Any]:
    """The graph's call with autograd off: a graph that could record it is another, slower one."""
    import torch

    no_grad = torch.no_grad

    def called(*tensors: Any) -> Any:
        with no_grad():
            return call(*tensors)

    return called
