"""The user's outermost modules: see each of their calls, at no cost to the modules inside them.

Until the step's marks are known, every call of any module passes through one function of ours that knows at once
whether it is the outermost. Afterwards only the known roots do, each through its own `_compiled_call_impl`: the place
torch itself keeps for a module's replaced call, which copying and pickling leave out.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from profiler_doctor.analyzer.kinds import Root

if TYPE_CHECKING:
    from profiler_doctor.analyzer.capture.child.marks import Marks

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
    """The call of one root module from now on: a mark, then whatever the conductor put in the call's place."""

    def __init__(self, roots: Roots, module: Any, serial: str) -> None:
        self._roots = roots
        self._module = weakref.ref(module)
        self.serial = serial
        self.compiled: Callable[..., Any] | None = vars(module).get("_compiled_call_impl")
        """What `module.compile()` of the user's own had put there."""
        self.settled: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's call, as torch makes it."""
        roots = self._roots
        plain = self.compiled or self._module()._call_impl  # type: ignore[union-attr]  # it is being called
        if roots.is_compiling() or getattr(_inside, "root", False) or not roots.watching():
            return plain(*args, **kwargs)
        return roots.outermost(self, plain, args, kwargs)

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
        self.alive = True

    def install(self) -> None:
        """See the calls of all modules."""
        roots = self

        def first_seen(module: Any, *args: Any, **kwargs: Any) -> Any:
            if roots.is_compiling() or getattr(_inside, "root", False) or not roots.watching():
                return module._call_impl(*args, **kwargs)
            return roots.call_of(module)(*args, **kwargs)

        compile_module = self._module_class.compile

        def compile_and_watch(module: Any, *args: Any, **kwargs: Any) -> None:
            compile_module(module, *args, **kwargs)
            if roots.alive:
                roots.adopt(module)

        self._module_class._compiled_call_impl = first_seen
        self._module_class.compile = compile_and_watch
        self._compile_module = compile_module

    def settle(self) -> None:
        """See the known roots' calls only; all other modules are as torch made them."""
        for call in self.calls.values():
            module = call._module()
            if module is not None:
                vars(module)["_compiled_call_impl"] = call
        self._module_class._compiled_call_impl = None

    def remove(self) -> None:
        """Put everything back; the roots' calls pass straight through."""
        self.alive = False
        self._module_class._compiled_call_impl = None
        self._module_class.compile = self._compile_module
        for call in self.calls.values():
            module = call._module()
            if module is not None and vars(module).get("_compiled_call_impl") is call:
                vars(module)["_compiled_call_impl"] = call.compiled

    def watching(self) -> bool:
        """Whether a call on this thread counts."""
        return self.alive and self._marks.listens_here()

    def call_of(self, module: Any) -> Callable[..., Any]:
        """The root call of an outermost module; its own plain call where it has no parameters (a loss, say)."""
        known = self.calls.get(id(module))
        if known is not None and known._module() is module:
            return known
        if next(iter(module.parameters()), None) is None:
            return module._call_impl  # type: ignore[no-any-return]
        serial = str(len(self.calls))
        self._marks.names[f"module {serial}"] = name_of(module)
        self.calls[id(module)] = RootCall(self, module, serial)
        return self.calls[id(module)]

    def adopt(self, module: Any) -> None:
        """See the calls of a module that the user just compiled in place."""
        call = self.call_of(module)
        if isinstance(call, RootCall):
            call.compiled, call.settled = vars(module)["_compiled_call_impl"], None
            vars(module)["_compiled_call_impl"] = call

    def outermost(self, call: RootCall, plain: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Mark, then make one outermost call."""
        _inside.root = True
        try:
            inspector, module = self.inspector, call._module()
            if inspector is None and self._marks.detail == 0:
                self._marks.seen("module", call.serial)
            else:
                self._mark_in_full(call, module, tensors_in(self._tensor, (args, kwargs)))
            chosen = call.settled
            if chosen is None:
                chosen = call.settled = self._marks.conductor.on_root_call(Root(module, args, kwargs, plain))
            output = (chosen or plain)(*args, **kwargs)
            if inspector is not None:
                inspector.after_call(call.serial, tensors_in(self._tensor, output))
            return output
        finally:
            _inside.root = False

    def _mark_in_full(self, call: RootCall, module: Any, tensors: list[Any]) -> None:
        signature = signature_of(tensors)
        mode = "train" if module.training else "eval"
        self._marks.seen("module", f"{call.serial}|{mode}|{signature}")
        if self.inspector is not None:
            self.inspector.before_call(call.serial, module, (signature, tensors))


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


def name_of(module: Any) -> str:
    """The class name; of a compiled module, the class it wraps."""
    return type(vars(module).get("_modules", {}).get("_orig_mod") or module).__name__
