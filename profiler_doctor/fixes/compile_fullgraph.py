"""Ask torch whether the model compiles as one graph, and run it so.

What it does: `torch.compile(fullgraph=True)`, which fails at the first place where the graph would break instead of
going on in Python. Where it does, the fix is not tried, and the reason is that place.

When it applies: as for `compile`. It is a question more than a cure: a model without breaks runs as with `compile`.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/compile/programming_model.fullgraph_true.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Root, Unsuitable
from profiler_doctor.fixes._compiling import can_compile, compiled, to_compile
from profiler_doctor.fixes._engine import copied, first_line


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch
    from torch._dynamo.exc import Unsupported

    probe = to_compile(copied(root.module))
    try:
        # tracing shows the breaks; what comes after it is left to the call itself
        traced: Callable[..., Any] = torch.compile(probe, fullgraph=True, backend="eager")
        traced(*root.args, **root.kwargs)
    except Unsupported as error:
        place = next((line.strip() for line in str(error).splitlines() if line.strip().startswith("File ")), "")
        raise Unsuitable(f"the graph breaks: {first_line(error)}{' at ' + place if place else ''}") from error
    with compiled(root, fullgraph=True) as call:
        yield call


FIX = Fix(
    name="compile-fullgraph",
    doc=__doc__,
    cures=(),
    snippet="model = torch.compile(model, fullgraph=True)\n",
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK,
    applies=can_compile,
    treat=_treat,
    variant_of="compile",
    excludes=ENGINE,
)
