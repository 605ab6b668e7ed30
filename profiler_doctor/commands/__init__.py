"""The words of each command on the command line, a file a command; the verb behind it is imported when it is called.

A file is found by being here. It ends in `COMMAND`, a function whose parameters are the arguments and options.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator


def commands() -> Iterator[tuple[str, Callable[..., None]]]:
    """Name and function of every command, in the order of the files. An underscore at the end saves a keyword."""
    for module in pkgutil.iter_modules(__path__):
        found = importlib.import_module(f"{__name__}.{module.name}")
        yield module.name.rstrip("_"), found.COMMAND
