"""The one way to extend the program: put a file into a folder, and it is found."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Broken:
    """A file or entry point that could not be loaded; reports name it and the run goes on."""

    module: str
    error: str


@dataclass(frozen=True)
class Found(Generic[T]):
    """All values of one kind, in the order of their files, and the files that broke."""

    items: tuple[T, ...]
    broken: tuple[Broken, ...] = ()


def find(package: str, kind: type[T]) -> Found[T]:
    """The module-level values of type `kind` in every module of `package`, then those of its entry points.

    `package` is a dotted name such as `profiler_doctor.rules`, which is also the name of the entry-point group that
    third parties use. A value counts once, however many modules import it. Modules whose name starts with an
    underscore are not looked at.
    """
    items: list[T] = []
    broken: list[Broken] = []
    for name in (*_modules(package), *_entry_points(package)):
        try:
            values = _values(name)
        except Exception as error:  # a broken plug-in must not take the others with it
            broken.append(Broken(name, f"{type(error).__name__}: {error}"))
            continue
        items.extend(value for value in values if isinstance(value, kind) and value not in items)
    return Found(tuple(items), tuple(broken))


def in_file(path: Path, kind: type[T]) -> tuple[T, ...]:
    """The values of type `kind` in one file that belongs to no package, such as a fix of the user's own.

    Raises:
        Exception: whatever the file raises when it is loaded; OSError where there is none.
    """
    spec = importlib.util.spec_from_file_location(f"_profiler_doctor_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return tuple(value for value in vars(module).values() if isinstance(value, kind))


def _modules(package: str) -> Iterator[str]:
    paths = importlib.import_module(package).__path__
    for module in sorted(pkgutil.iter_modules(paths), key=lambda found: found.name):
        if not module.name.startswith("_"):
            yield f"{package}.{module.name}"


@cache
def _entry_points(group: str) -> tuple[str, ...]:
    return tuple(point.value for point in entry_points(group=group))


def _values(name: str) -> tuple[object, ...]:
    module_name, _, attribute = name.partition(":")
    module = importlib.import_module(module_name)
    if attribute:
        return (getattr(module, attribute),)
    return tuple(vars(module).values())
