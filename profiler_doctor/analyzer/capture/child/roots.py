"""The user's outermost modules: see each of their calls, at no cost to the modules inside them.

Until the step's marks are known, every call of any module passes through one function of ours that knows at once
whether it is the outermost. Afterwards only the known roots do, each through its own `_compiled_call_impl`: the place
torch itself keeps for a module's replaced call, which copying and pickling leave out.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from profiler_doctor.analyzer.kinds import Root

if TYPE_CHECKING:
    from profiler_doctor.analyzer.capture.child.marks import Marks

MAX_TENSORS_IN_TOKEN = 16
_inside = threading.local()


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
        self._marks.names[f"module {serial}"] = _name_of(module)
        self.calls[id(module)] = RootCall(self, module, serial)
        return self.calls[id(module)]

    def adopt(self, module: Any) -> None:
        """See the calls of a module that the user just compiled in place."""
        call = self.call_of(module)
        if isinstance(call, RootCall):
            call.compiled = vars(module)["_compiled_call_impl"]
            vars(module)["_compiled_call_impl"] = call

    def outermost(self, call: RootCall, plain: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Mark, then make one outermost call."""
        _inside.root = True
        try:
            self._marks.seen("module", self._token(call, args, kwargs))
            chosen = call.settled
            if chosen is None:
                root = Root(call._module(), args, kwargs, plain)
                chosen = call.settled = self._marks.conductor.on_root_call(root)
            return (chosen or plain)(*args, **kwargs)
        finally:
            _inside.root = False

    def _token(self, call: RootCall, args: Any, kwargs: Mapping[str, Any]) -> str:
        if self._marks.detail == 0:
            return call.serial
        module: Any = call._module()
        return f"{call.serial}|{'train' if module.training else 'eval'}|{self.signature(args, kwargs)}"

    def signature(self, args: Any, kwargs: Mapping[str, Any]) -> str:
        """Shapes of the tensors among the arguments, in order."""
        shapes: list[str] = []
        self._collect((*args, *kwargs.values()), shapes, 3)
        return " ".join(shapes)

    def _collect(self, values: Any, shapes: list[str], depth: int) -> None:
        for value in values:
            if len(shapes) == MAX_TENSORS_IN_TOKEN:
                return
            if isinstance(value, self._tensor):
                shapes.append("x".join(map(str, value.shape)) or "scalar")
            elif depth and isinstance(value, (tuple, list)):
                self._collect(value, shapes, depth - 1)
            elif depth and isinstance(value, Mapping):
                self._collect(value.values(), shapes, depth - 1)


def _name_of(module: Any) -> str:
    """The class name; of a compiled module, the class it wraps."""
    return type(vars(module).get("_modules", {}).get("_orig_mod") or module).__name__
