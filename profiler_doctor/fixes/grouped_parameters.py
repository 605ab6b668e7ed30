"""Give the optimizer one group for all weights of like settings.

What it does: when an optimizer is made, groups whose settings are equal in everything are made one. An implementation
that works on lists of weights then works on long lists.

When it applies: a group for each weight or layer, with the same learning rate and weight decay in most of them. A
scheduler or script that changes the settings of one group by its number must be changed with it.

How results may change: not at all, as long as nobody changes a group's settings later. A saved state of the optimizer
has other groups.

Source: https://docs.pytorch.org/docs/stable/optim.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._optimizers import trains
from profiler_doctor.fixes._patched import patched

WEIGHTS = "params"


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    from torch.optim import Optimizer

    with patched(Optimizer, "__init__", _grouping):
        yield


def _grouping(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        original(self, grouped(list(params)), *args, **kwargs)

    return init


def grouped(groups: list[Any]) -> list[Any]:
    """The groups as given to an optimizer, those of like settings made one; weights without groups stay so."""
    if not all(isinstance(group, dict) and WEIGHTS in group for group in groups):
        return groups
    found: list[dict[str, Any]] = []
    for group in groups:
        like = next((other for other in found if _settings(other) == _settings(group)), None)
        if like is None:
            found.append({**group, WEIGHTS: _weights(group)})
        else:
            like[WEIGHTS] += _weights(group)
    return list(found)


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    # a name that a script gives its groups says nothing of their settings, but it may look for it
    return {name: value for name, value in group.items() if name != WEIGHTS}


def _weights(group: dict[str, Any]) -> list[Any]:
    weights = group[WEIGHTS]
    return [weights] if hasattr(weights, "requires_grad") else list(weights)


FIX = Fix(
    name="grouped-parameters",
    doc=__doc__,
    cures=("OPT005",),
    snippet="""\
decayed = [weight for weight in model.parameters() if weight.dim() > 1]
others = [weight for weight in model.parameters() if weight.dim() <= 1]
groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
""",
    changes_numbers="",
    rank=0,
    applies=trains,
    set_up=_set_up,
)
