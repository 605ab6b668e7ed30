"""Generate with a cache of keys and values that has its full length from the start.

What it does: a Hugging Face model's `generation_config` asks for the static cache while the fix lasts, so that a token
is written into its place instead of being joined to a copy of all before it, and every step has the same shapes.

When it applies: text generation with `model.generate(...)`. Attention looks at the whole length from the first token
on, so short texts can lose; beams that are reordered do.

How results may change: by rounding, which can change a sampled or a nearly tied token.

Source: https://huggingface.co/docs/transformers/kv_cache
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable

WANTED = "static"


def _applies(machine: Machine) -> str | None:
    if machine.training:
        return "the script trains"
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    config = getattr(root.module, "generation_config", None)
    if config is None:
        raise Unsuitable("the model has no generation_config; a cache of your own is made longer by hand")
    before = getattr(config, "cache_implementation", None)
    if before == WANTED:
        raise Unsuitable("the model uses it already")
    config.cache_implementation = WANTED
    try:
        yield root.call
    finally:
        config.cache_implementation = before


FIX = Fix(
    name="static-cache",
    doc=__doc__,
    cures=("ATT004",),
    snippet='tokens = model.generate(inputs, cache_implementation="static")\n',
    changes_numbers="by rounding",
    rank=1,
    applies=_applies,
    treat=_treat,
)
