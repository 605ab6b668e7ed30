"""Let torch compile the block that the model repeats, once for all its repetitions.

What it does: it finds the largest class of layers that stands several times in one list of the model, and compiles each
of them where it stands. They share one piece of compiled code, so the first call takes a fraction of what compiling the
whole model takes.

When it applies: a stack of like blocks (transformers, residual networks) whose compile time is in the way. What lies
between the blocks stays as it is.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Dropout draws other random numbers.

Source: https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Root, Unsuitable
from profiler_doctor.fixes._compiling import can_compile

COMPILED_CALL = "_compiled_call_impl"
"""Where torch keeps what `module.compile()` made."""


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    blocks = repeated(root.module)
    if not blocks:
        raise Unsuitable("no list of the model holds two layers of one class with layers inside")
    before = [set(vars(block)) for block in blocks]
    try:
        for block in blocks:
            block.compile()
        yield root.call
    finally:
        for block, names in zip(blocks, before, strict=True):
            for name in set(vars(block)) - names:
                delattr(block, name)


def repeated(module: Any) -> list[Any]:
    """The like blocks that hold most weights; a block has layers of its own."""
    from torch import nn

    found: dict[tuple[int, type], list[Any]] = {}
    for part in module.modules():
        if isinstance(part, nn.ModuleList | nn.Sequential):
            for block in part:
                if any(True for _ in block.children()) and not isinstance(block, nn.ModuleList | nn.Sequential):
                    found.setdefault((id(part), type(block)), []).append(block)
    several = [blocks for blocks in found.values() if len(blocks) > 1]
    return max(several, key=_weight, default=[])


def _weight(blocks: list[Any]) -> int:
    return sum(weight.numel() for block in blocks for weight in block.parameters())


FIX = Fix(
    name="compile-regional",
    doc=__doc__,
    cures=("LCH001",),
    snippet="""\
for block in model.blocks:
    block.compile()
""",
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK,
    applies=can_compile,
    treat=_treat,
    variant_of="compile",
    excludes=ENGINE,
)
