"""Multiply with 8-bit weights in linear layers.

What it does: linear layers of a copy of the model hold their weights in 8 bits, and quantise their inputs as they come
(`quantize_dynamic`).

When it applies: inference on a CPU with 8-bit dot products, in models of large linear layers. Small ones lose: 0.44
times as fast was measured.

How results may change: by about 1e-2 to 2e-2, more in deep models. No trial accepts that for you: it says how far the
answers are apart, and whether your task can bear it only an evaluation on your own data tells.

Source: https://docs.pytorch.org/docs/stable/quantization.html
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._standin import Standin


def _applies(machine: Machine) -> str | None:
    if machine.training:
        return "the script trains"
    if machine.device != "cpu":
        return "the work does not run on a CPU"
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import copy

    import torch
    from torch.ao import quantization

    linears = [part for part in root.module.modules() if type(part) is torch.nn.Linear]
    if not any(part.weight.dtype == torch.float32 for part in linears):
        raise Unsuitable("the model has no linear layer in float32")
    quantise: Callable[..., Any] = quantization.quantize_dynamic
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = quantise(copy.deepcopy(root.module), {torch.nn.Linear}, torch.qint8)
    yield Standin(quantised, quantised)


FIX = Fix(
    name="int8-dynamic",
    doc=__doc__,
    cures=(),
    snippet="model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)\n",
    changes_numbers="by 1e-2 to 2e-2 and more: evaluate it on your own data",
    rank=5,
    applies=_applies,
    treat=_treat,
    freezes=True,
    excludes="precision",
)
