"""The one way to extend the program: put a file into a folder, and it is found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
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
