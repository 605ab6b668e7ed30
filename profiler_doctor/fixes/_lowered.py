"""A model run in bfloat16 whose outputs come back in the types they had: for the fixes that lower precision."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from profiler_doctor.analyzer.kinds import Machine, Root
from profiler_doctor.fixes._nested import replaced

BF16_UNITS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "svebf16"})
"""Flags of CPUs (x86 and Arm) that multiply bfloat16 by themselves; others convert number by number."""
TOLERANCE = 2e-2
"""Relative L2: 3e-3 to 6e-3 were measured on small models, and layers add up."""


def has_bf16(machine: Machine) -> str | None:
    """Why bfloat16 is not tried here: the words that `Fix.applies` gives."""
    if machine.device == "cpu" and not machine.cpu_flags & BF16_UNITS:
        return "this CPU has no bfloat16 units (avx512_bf16, amx_bf16): it would be many times slower"
    return None if machine.has_root else "no module was called"


def types_of_outputs(root: Root) -> list[Any]:
    """The dtype of each output tensor in order, told by a call of a copy."""
    import torch

    found: list[Any] = []

    def noted(tensor: Any) -> Any:
        found.append(tensor.dtype)
        return tensor

    module = copy.deepcopy(root.module)
    with torch.no_grad():
        replaced(module(*root.args, **root.kwargs), torch.Tensor, noted)
    return found


def restored(call: Callable[..., Any], types: list[Any]) -> Callable[..., Any]:
    """The call with bfloat16 outputs brought back to `types`; one more than was seen comes back in float32."""
    import torch

    def called(*args: Any, **kwargs: Any) -> Any:
        places = iter(types)

        def back(tensor: Any) -> Any:
            wanted = next(places, torch.float32)
            return tensor.to(wanted) if tensor.dtype == torch.bfloat16 else tensor

        return replaced(call(*args, **kwargs), torch.Tensor, back)

    return called
