"""`torch.compile` with options, undone when its context closes: what the compile fixes have in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from profiler_doctor.analyzer.capture.child.generators import Generators
from profiler_doctor.analyzer.capture.child.users_function import is_function
from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.fixes._engine import copied, first_line
from profiler_doctor.fixes._standin import Standin


class Rewriter(Protocol):
    """A backend for torch.compile that replaces places of the graphs it is given."""

    places: int

    @property
    def told(self) -> str:
        """What was done, for a report."""

    def __call__(self, module: Any, examples: Sequence[Any], /) -> Callable[..., Any]:
        """What runs in the place of a graph."""


COMPILERS = ("g++", "clang++", "c++")


def can_compile(machine: Machine) -> str | None:
    """Why nothing can be compiled here: the words that `Fix.applies` gives."""
    if not machine.has_root:
        return "no module was called"
    if machine.compiled:
        return "the script compiles its model already"
    return has_compiler(machine)


def can_compile_on_gpu(machine: Machine) -> str | None:
    """As `can_compile`, for what makes a difference on a GPU alone."""
    return can_compile(machine) or (None if machine.device == "cuda" else "the work does not run on a CUDA GPU")


def has_compiler(machine: Machine) -> str | None:
    """Whether inductor's code for this machine can be built: on a CPU it is C++."""
    names = (os.environ.get("CXX", ""), *COMPILERS)
    if machine.device == "cpu" and not any(shutil.which(name) for name in names if name):
        return "no C++ compiler is on the PATH (g++, clang++ or $CXX)"
    return None


@contextmanager
def compiled(root: Root, **options: Any) -> Iterator[Callable[..., Any]]:
    """The root's call through `torch.compile(…, **options)`."""
    import torch

    # a module compiles to a cheaper entry than its bound call does (80 µs a call, measured on a chain of 60 small ops)
    plain = root.call in (root.module, root.module._call_impl)
    before = set(vars(root.module))
    called: Callable[..., Any] = torch.compile(to_compile(root.module) if plain else root.call, **options)
    added = set(vars(root.module)) - before  # torch marks a module that it compiles
    try:
        yield called
    finally:
        for name in added:
            delattr(root.module, name)


def to_compile(module: Any) -> Any:
    """The module; or the user's function that it stands for: a function that is given no tensor, and reads its own, is
    compiled where `torch.compile` is given it, and not where that comes upon it."""
    return module.function if is_function(module) else module


@contextmanager
def rewritten(root: Root, backend: Rewriter, nothing: str) -> Iterator[Standin]:
    """The root's call with places of its graphs replaced, after one call of a copy has shown that there are such.

    Raises `Unsuitable` with the words `nothing` where there are none, or with why torch.compile cannot look.
    """
    _show(root, backend)
    if not backend.places:
        raise Unsuitable(nothing)
    with compiled(root, backend=backend) as call:
        yield Standin(root.module, call, backend.told)


def _show(root: Root, backend: Rewriter) -> None:
    import torch

    generators = Generators.now(torch)
    probe: Callable[..., Any] = torch.compile(to_compile(copied(root.module)), backend=backend)
    try:
        probe(*root.args, **root.kwargs)
    except Exception as error:  # whatever torch.compile, or a copy of the model, does not bear
        raise Unsuitable(f"torch.compile cannot look into the model: {first_line(error)}") from error
    finally:
        generators.restore()
