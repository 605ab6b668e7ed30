"""Let matrix products and convolutions run in bfloat16, and the rest as it was.

What it does: each call runs under `torch.autocast(dtype=torch.bfloat16)`, and outputs come back in the type they had.

When it applies: a GPU, or a CPU with bfloat16 units, and large products. On a CPU without them it is 5 to 25 times
slower (measured), and is not tried. Small models pay more for the casts than they gain.

How results may change: by bfloat16's rounding, 3e-3 to 2e-2. Compare what you care for (accuracy, loss) by yourself.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Root, Unsuitable
from profiler_doctor.fixes._lowered import TOLERANCE, has_bf16, restored, types_of_outputs


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch

    if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in root.module.parameters()):
        raise Unsuitable("the model has weights of lower precision already")
    autocast, call = torch.autocast, root.call
    device = next((weight.device.type for weight in root.module.parameters()), "cpu")

    def in_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast(device, dtype=torch.bfloat16):
            return call(*args, **kwargs)

    yield restored(in_autocast, types_of_outputs(root))


FIX = Fix(
    name="autocast-bf16",
    doc=__doc__,
    cures=("PRC002",),
    snippet="""\
with torch.autocast(device.type, dtype=torch.bfloat16):
    output = model(inputs)
""",
    changes_numbers="by bfloat16's rounding: up to 2e-2",
    rank=1,
    tolerance=TOLERANCE,
    applies=has_bf16,
    treat=_treat,
    excludes="precision",
)
