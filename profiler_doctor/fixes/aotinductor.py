"""Compile the model ahead of time with AOTInductor.

What it does: it exports the model (`torch.export`), has inductor compile the graph into a shared library with the
weights in it, and calls that library: no Python, no guards, no compiling at the next start.

When it applies: inference of a model that can be exported, a C++ compiler on a CPU, and calls whose shapes are known.
Counters in Python and changes of inputs are lost: the trial watches for that. Forward hooks are not run.

How results may change: by rounding (up to 3e-7 in float32). Weights that change later do not reach the library.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._compiling import has_compiler
from profiler_doctor.fixes._engine import first_line, fits_inference, handed_over


def _applies(machine: Machine) -> str | None:
    return fits_inference(machine) or has_compiler(machine)


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    with tempfile.TemporaryDirectory() as folder:
        yield handed_over(root, lambda module, tensors: _package(module, tensors, Path(folder)))


def _package(module: Any, tensors: tuple[Any, ...], folder: Path) -> Callable[..., Sequence[Any]]:
    import torch

    number = sum(1 for _ in folder.glob("*.pt2"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module(*tensors)  # the exporter would show the structure of an output of its own making
        try:
            program = torch.export.export(module, tensors, strict=False)
        except Exception as error:  # whatever the model holds that the exporter does not know
            raise Unsuitable(f"it cannot be exported: {first_line(error)}") from error
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / f"{number}.pt2"))
    run: Callable[..., Sequence[Any]] = torch._inductor.aoti_load_package(path)
    return run


FIX = Fix(
    name="aotinductor",
    doc=__doc__,
    cures=("LCH001",),
    snippet="""\
program = torch.export.export(model.eval(), example_inputs)
path = torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")
model = torch._inductor.aoti_load_package(path)
""",
    changes_numbers="by rounding (3e-7 in float32)",
    rank=COMPILER_RANK,
    applies=_applies,
    treat=_treat,
    freezes=True,
    variant_of="compile",
    excludes=ENGINE,
)
