"""Run the model as a frozen TorchScript program made from its source.

What it does: `torch.jit.script` translates the model's Python code, branches and loops on data included, and
`torch.jit.freeze` makes the weights constants of the result.

When it applies: inference of a model written in the part of Python that TorchScript knows: types that can be told, no
generators, no foreign libraries. Many models are not, and are then left alone. Forward hooks are not run.

How results may change: by rounding (up to 3e-7 in float32). Weights that change later do not reach the program.

Source: https://docs.pytorch.org/docs/stable/generated/torch.jit.script.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import ENGINE, Fix, Root, Unsuitable
from profiler_doctor.fixes._engine import copied, first_line, fits_inference
from profiler_doctor.fixes._torchscript import quiet, without_gradients


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch

    if root.module.training:
        raise Unsuitable("the model is in training mode, and only a model in eval mode can be frozen")
    with quiet():
        try:
            scripted = torch.jit.script(copied(root.module))
        except Exception as error:  # whatever its source holds that TorchScript does not know
            raise Unsuitable(f"TorchScript cannot translate it: {first_line(error)}") from error
        frozen: Any = torch.jit.freeze(scripted)
    yield _with_names(frozen)


def _with_names(program: Any) -> Callable[..., Any]:
    """As `without_gradients`, for a call that takes names too."""
    called = without_gradients(lambda args, kwargs: program(*args, **kwargs))
    return lambda *args, **kwargs: called(args, kwargs)


FIX = Fix(
    name="torchscript-script",
    doc=__doc__,
    cures=("LCH001", "FUS005", "PYB006"),
    snippet="model = torch.jit.freeze(torch.jit.script(model.eval()))\n",
    changes_numbers="by rounding (3e-7 in float32)",
    rank=6,
    applies=fits_inference,
    treat=_treat,
    freezes=True,
    variant_of="torchscript",
    excludes=ENGINE,
)
