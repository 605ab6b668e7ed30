"""A second module in the place of the user's: its own structure, the same weights and the same hooks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


@dataclass(frozen=True)
class Standin:
    """What a `treat` yields that works on a copy: the call, and the module a further fix would have to treat."""

    module: Any
    call: Callable[..., Any]
    note: str = ""
    """What a report should add about this treatment: "ran on CPU (12 nodes)"."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call in the place of the root's."""
        return self.call(*args, **kwargs)


def twin(module: Any) -> Any:
    """A copy of the module's structure. Parameters, buffers and hook tables are the very same objects.

    So hooks that the user adds or removes later are the twin's too, and weights are held once.
    """
    shared = [*module.parameters(), *module.buffers()]
    for part in module.modules():
        shared += [vars(part)[name] for name in HOOKS if name in vars(part)]
    return copy.deepcopy(module, {id(thing): thing for thing in shared})


def hooked(module: Any) -> bool:
    """Whether a forward hook of the user's looks at this very module."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
