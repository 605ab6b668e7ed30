"""Let what the script compiles be compiled once for all shapes.

What it does: every `torch.compile` of the script's is made with `dynamic=True`, so that a new length or batch size
needs no compiling.

When it applies: a script that compiles its model, or a function, and feeds it many shapes. Where sizes never change the
less specialised code loses a little.

How results may change: by rounding.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._patched import patched


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    import torch

    with patched(torch, "compile", _dynamic):
        yield


def _dynamic(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001  # it stands in for torch.compile
        return original(*args, **{**kwargs, "dynamic": True})

    return compile


FIX = Fix(
    name="dynamic-shapes",
    doc=__doc__,
    cures=("COM002",),
    snippet="model = torch.compile(model, dynamic=True)\n",
    changes_numbers="by rounding",
    rank=1,
    set_up=_set_up,
)
