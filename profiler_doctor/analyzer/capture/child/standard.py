"""Modules of the standard library that torch does not load, even where the user's project has one of the same name."""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter, PathFinder
from importlib.util import module_from_spec
from typing import Any

LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120  # as the interpreter itself found it


def standard(name: str) -> Any:
    """The standard library's module. It is not entered in `sys.modules`: an import of the user's finds what it would.

    Raises ImportError where this platform has none.
    """
    folders = [LIBRARY, *(entry for entry in sys.path if entry == f"{LIBRARY}{os.sep}lib-dynload")]
    spec = BuiltinImporter.find_spec(name) or PathFinder.find_spec(name, folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"this Python has no module {name}", name=name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
