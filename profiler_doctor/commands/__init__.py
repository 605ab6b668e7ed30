"""The words of each command on the command line, a file a command; the verb behind it is imported when it is called.

A file is found by being here. It ends in `COMMAND`, a function whose parameters are the arguments and options;
`PLACE`, if it has one, is the command's number in the help's list. A file whose name begins with an underscore is no
command.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from math import inf
from types import ModuleType


def commands() -> Iterator[tuple[str, Callable[..., None]]]:
    """Name and function of every command, by PLACE, then those without. An underscore at the end saves a keyword."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    found = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    for name in sorted(found, key=lambda name: _place(found[name])):
        yield name.rstrip("_"), found[name].COMMAND


def _place(module: ModuleType) -> float:
    place: float = getattr(module, "PLACE", inf)
    return place
