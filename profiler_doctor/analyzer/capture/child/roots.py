"""The user's outermost modules: see each of their calls, at no cost to the modules inside them.

Until the step's marks are known, every call of any module passes through one function of ours that knows at once
whether it is the outermost. Afterwards only modules of the known roots' classes do. The function stands where torch
looks for a module's replaced call, `_compiled_call_impl`, on the class: copying, pickling and scripting leave it alone.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from profiler_doctor.analyzer.capture.child.replacing import keep_from_compilers, replaced
from profiler_doctor.analyzer.kinds import Root

if TYPE_CHECKING:
    from profiler_doctor.analyzer.capture.child.marks import Marks

CALL_PLACE = "_compiled_call_impl"
MAX_TENSORS_IN_TOKEN = 16
_inside = threading.local()


class Inspector(Protocol):
    """Looks at every outermost call, at its tensors' shapes and types, never at their values."""

    def before_call(self, serial: str, module: Any, inputs: tuple[str, list[Any]]) -> None:
        """The root of this serial number is about to be called with tensors of this signature."""
        ...

    def after_call(self, serial: str, tensors: list[Any]) -> None:
        """It returned these tensors."""
        ...


class RootCall:
    """What is known of one root module, and what the conductor put in its call's place."""

    def __init__(self, module: Any, serial: str) -> None:
        self._module = weakref.ref(module)
        self.kind = type(module)
        self.serial = serial
        self.compiled: Callable[..., Any] | None = vars(module).get(CALL_PLACE)
        """What `module.compile()` of the user's own had put there."""
        self.settled: Callable[..., Any] | None = None

    def module(self) -> Any:
        """The module itself, None once it is gone."""
        return self._module()

    def plain(self) -> Callable[..., Any]:
        """The module's own call, as it would be made without us."""
        return self.compiled or self._module()._call_impl  # type: ignore[union-attr]  # it is being called


class CompiledCall:
    """Stands where `module.compile()` of the user's own put the compiled call, so that it is still seen."""

    def __init__(self, roots: Roots, call: RootCall) -> None:
        self._roots = roots
        self.call = call

    @property
    def compiled(self) -> Callable[..., Any] | None:
        """The compiled call itself."""
        return self.call.compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's call, as torch makes it."""
        if self._roots.is_compiling():
            return self.call.plain()(*args, **kwargs)
        return self._roots.seen(self.call.module(), args, kwargs)

    def __deepcopy__(self, memo: object) -> None:
        """A copied module has no call of ours."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class Roots:
    """All outermost modules with parameters, in the order of their first call."""

    def __init__(self, torch: Any, marks: Marks) -> None:
        self._module_class = torch.nn.Module
        self.is_compiling: Callable[[], bool] = torch.compiler.is_compiling
        self._tensor = torch.Tensor
        self._marks = marks
        self.calls: dict[int, RootCall] = {}
        """By `id` of the module."""
        self.inspector: Inspector | None = None
        self._serials = count()
        self.asking = True
        """Whether the conductor may want to put something in a root's place."""
        self.alive = True
        self._settled = False
        self._hooked: set[type] = set()

    def install(self) -> None:
        """See the calls of all modules."""
        roots = self

        def watched_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if roots.is_compiling() or roots.inside():
                return module._call_impl(*args, **kwargs)
            return roots.seen(module, args, kwargs)

        for leads_to_the_call in (watched_call, CompiledCall.__call__, Roots.seen):
            keep_from_compilers(leads_to_the_call, inside=False)
        for ours_alone in (Roots._watched, Roots._unwatched, Roots._before, Roots._after):
            keep_from_compilers(ours_alone, inside=True)
        self._watched_call = watched_call
        self._module_class._compiled_call_impl = watched_call
        self._stop_compile = replaced(self._module_class, "compile", self._compiling)

    def adopt(self, module: Any, serial: str, name: str) -> None:
        """See a module that only we know of as a root, though it has no parameters."""
        self._marks.names[f"module {serial}"] = name
        self.calls[id(module)] = RootCall(module, serial)

    def inside(self) -> bool:
        """Whether a root's call is under way on this thread."""
        return bool(getattr(_inside, "root", False))

    def settle(self) -> None:
        """See the calls of the known roots' classes only; all other modules are as torch made them."""
        self._settled = True
        self._module_class._compiled_call_impl = None
        for call in self.calls.values():
            kind = type(call.module())
            if call.module() is not None and CALL_PLACE not in vars(kind):
                setattr(kind, CALL_PLACE, self._watched_call)
                self._hooked.add(kind)

    def remove(self) -> None:
        """Put everything back."""
        self.alive = False
        self._module_class._compiled_call_impl = None
        self._stop_compile()
        for kind in self._hooked:
            delattr(kind, CALL_PLACE)
        self._hooked.clear()
        for call in self.calls.values():
            module = call.module()
            if module is not None and isinstance(vars(module).get(CALL_PLACE), CompiledCall):
                vars(module)[CALL_PLACE] = call.compiled

    def seen(self, module: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """A module is called that may be an outermost one. A fault of ours in here is told, and the call made."""
        call = self._watched(module)
        if call is None:
            return self._unwatched(module)(*args, **kwargs)
        try:
            chosen = self._before(call, args, kwargs)
            output = chosen(*args, **kwargs)
            self._after(call, output)
            return output
        finally:
            _inside.root = False

    def _watched(self, module: Any) -> RootCall | None:
        if self.alive and self._marks.listens_here() and not self.inside():
            with self._marks.guarded():
                return self._known(module)
        return None

    def _unwatched(self, module: Any) -> Callable[..., Any]:
        compiled = vars(module).get(CALL_PLACE)
        return compiled.call.plain() if isinstance(compiled, CompiledCall) else module._call_impl

    def _before(self, call: RootCall, args: Any, kwargs: Mapping[str, Any]) -> Callable[..., Any]:
        """Mark; what is to be called."""
        _inside.root = True
        with self._marks.guarded():
            self._mark(call, args, kwargs)
            if call.settled is None and self.asking:
                root = Root(call.module(), args, kwargs, call.plain(), serial=call.serial)
                call.settled = self._marks.conductor.on_root_call(root)
        return call.settled or call.plain()

    def _after(self, call: RootCall, output: Any) -> None:
        if self.inspector is not None:
            with self._marks.guarded():
                self.inspector.after_call(call.serial, tensors_in(self._tensor, output))

    def _compiling(self, compile_in_place: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compile_in_place)
        def compiled(module: Any, *args: Any, **kwargs: Any) -> None:
            compile_in_place(module, *args, **kwargs)
            if self.alive:
                with self._marks.guarded():
                    self._adopt(module)

        return compiled

    def _adopt(self, module: Any) -> None:
        """See the calls of a module that the user just compiled in place."""
        call = self.calls.get(id(module))
        if call is None or call.module() is not module:
            call = self._new(module)
        if call is None:
            return
        call.compiled, call.settled = vars(module)[CALL_PLACE], None
        vars(module)[CALL_PLACE] = CompiledCall(self, call)

    def _known(self, module: Any) -> RootCall | None:
        """What is known of this outermost module; None for one that has no parameters (a loss, say), or comes late."""
        call = self.calls.get(id(module))
        if call is not None and call.module() is module:
            return call
        if next(iter(module.parameters()), None) is None:
            return None
        return self._new(module)

    def _new(self, module: Any) -> RootCall | None:
        """A module not seen before. One that a program makes anew in each step counts as the one that it replaces."""
        serial = self._predecessor(module)
        if serial is None and self._settled:
            return None
        if serial is None:
            serial = str(next(self._serials))
            self._marks.names[f"module {serial}"] = self._name(module)
        self.calls[id(module)] = RootCall(module, serial)
        return self.calls[id(module)]

    def _predecessor(self, module: Any) -> str | None:
        """The serial number of a root that wraps the same module, or that is gone and was of the same class."""
        inner = _unwrapped(module)
        for key, call in list(self.calls.items()):
            known = call.module()
            if known is None and call.kind is type(module):
                del self.calls[key]
                return call.serial
            if known is not None and inner is not module and _unwrapped(known) is inner:
                return call.serial
        return None

    def _name(self, module: Any) -> str:
        """The class name (of a compiled or scripted module, the one it was); `Net#2` for a second one of the class."""
        real = _unwrapped(module)
        name = getattr(real, "original_name", None) or type(real).__name__
        same = sum(known.partition("#")[0] == name for known in self._marks.names.values())
        return f"{name}#{same + 1}" if same else name

    def _mark(self, call: RootCall, args: Any, kwargs: Mapping[str, Any]) -> None:
        if self.inspector is None and self._marks.detail == 0:
            self._marks.seen("module", call.serial)
            return
        module, tensors = call.module(), tensors_in(self._tensor, (args, kwargs))
        signature = signature_of(tensors)
        mode = "train" if module.training else "eval"
        self._marks.seen("module", f"{call.serial}|{mode}|{signature}")
        if self.inspector is not None:
            self.inspector.before_call(call.serial, module, (signature, tensors))


def _unwrapped(module: Any) -> Any:
    """What `torch.compile` wrapped; the module itself, where it wrapped nothing."""
    held = vars(module).get("_modules") or {}
    return held["_orig_mod"] if "_orig_mod" in held else module  # noqa: SIM401  # a scripted module's have no get


def signature_of(tensors: list[Any]) -> str:
    """Shapes in order: "8x3x96x96 8"."""
    return " ".join("x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors[:MAX_TENSORS_IN_TOKEN])


def tensors_in(kind: type, values: Any, depth: int = 4) -> list[Any]:
    """Tensors among the values and the containers in them, in order."""
    if isinstance(values, kind):
        return [values]
    if depth and isinstance(values, Mapping):
        values = list(values.values())
    if not depth or not isinstance(values, (tuple, list)):
        return []
    return [tensor for value in values for tensor in tensors_in(kind, value, depth - 1)]
