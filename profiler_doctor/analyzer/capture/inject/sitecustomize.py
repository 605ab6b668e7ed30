"""The one line of ours that the user's interpreter runs by itself: wait for torch, change nothing until then.

Python imports a module of this name at its start when the folder is on PYTHONPATH. It puts the environment and
`sys.path` back as they would be without us, lets a sitecustomize of the user's own run in its place, and leaves a
single finder that steps aside as soon as torch is imported.
"""

# ruff: noqa: PTH100, PTH118, PTH120
# pathlib would be loaded before the script, which may never need it.

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without loading typing
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any


class _Watch:
    """Sees the first import of torch or JAX (and of nvtx, whose ranges we copy) and wakes our session after it."""

    def __init__(self, plan: str, package: str) -> None:
        self.plan, self.package, self.pid = plan, package, os.getpid()
        self.wanted = {"torch", "jax", "nvtx"}

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """The module's own spec, with our wake-up call after its own loading."""
        if name not in self.wanted or os.getpid() != self.pid:
            return None
        import importlib.util

        self.wanted.discard(name)  # first, or find_spec would ask us again
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self.wanted.add(name)
            return None
        self._wake_after(name, spec.loader)
        if not self.wanted:
            sys.meta_path.remove(self)
        return spec

    def _wake_after(self, name: str, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: object) -> None:
            vars(loader).pop("exec_module", None)
            try:
                load(module)
            except BaseException:
                self.ours("tracebacks").keep_ours_out()
                raise
            self.wake(name)

        loader.exec_module = exec_module

    def wake(self, name: str) -> None:
        """Hand over to the part of us that knows torch; a fault of ours must not become the user's."""
        if os.getpid() != self.pid:
            return
        try:
            self.ours("session").imported(name, self.plan)
        except Exception as error:
            os.write(2, f"profiler-doctor: could not watch this run: {type(error).__name__}: {error}\n".encode())

    def ours(self, name: str) -> Any:
        """A module of the part of us that lives in the user's process."""
        from importlib import import_module

        _make_importable(self.package)
        return import_module(f"profiler_doctor.analyzer.capture.child.{name}")


class _OnlyUs:
    """Finds `profiler_doctor` where the user's interpreter would not, without a new entry on `sys.path`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Our package's spec; None for every other name."""
        if name != "profiler_doctor":
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [self.folder])


def _make_importable(folder: str) -> None:
    from importlib.util import find_spec

    if find_spec("profiler_doctor") is None:
        sys.meta_path.append(_OnlyUs(folder))


def _leave_no_trace(here: str) -> None:
    first, _, rest = os.environ.get("PYTHONPATH", "").partition(os.pathsep)
    if os.path.realpath(first) == here:
        if rest:
            os.environ["PYTHONPATH"] = rest
        else:
            del os.environ["PYTHONPATH"]
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != here or not entry]
    sys.path_importer_cache.pop(first, None)


def _die_with(parent: int) -> None:
    """Never outlive the process that started us, not even when it is killed (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _begin() -> None:
    here = os.path.dirname(os.path.realpath(__file__))
    plan = os.environ.pop("PROFILER_DOCTOR_PLAN", None)
    _leave_no_trace(here)
    if plan is None:
        return
    import json

    known = json.loads(plan)
    for descriptor in (known["report_fd"], known["control_fd"], *known["pipes"].values()):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    _die_with(known["parent"])
    os.write(known["report_fd"], b'{"say":"started"}\n')
    package = os.path.abspath(os.path.join(here, *[os.pardir] * 4))
    sys.meta_path.insert(0, _Watch(plan, package))


_begin()
del sys.modules["sitecustomize"]
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401  # the user's own; else this very ImportError
