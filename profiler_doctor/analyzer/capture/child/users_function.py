"""A function of the user's own as if it were an outermost module: where a program has no module, its calls are steps.

The function is found at its first call and given another code object, which leads to us first; every name that the
program has for the function stays good, a compiled one's included. What is behind it is a module with no weights, so
that all that is done to a root's call (marks, fixes, comparisons) is done to the function's.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import CellType, CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from profiler_doctor.analyzer.capture.child import difference
from profiler_doctor.analyzer.capture.child.keeping import state_of
from profiler_doctor.analyzer.capture.child.leaves import Leaves, flat, perturb, tensors
from profiler_doctor.analyzer.capture.child.own_code import is_own_file
from profiler_doctor.analyzer.capture.child.replacing import keep_from_compilers
from profiler_doctor.analyzer.capture.plan import FUNCTION

if TYPE_CHECKING:
    from profiler_doctor.analyzer.capture.child.roots import Roots

Guarded = Callable[[], AbstractContextManager[None]]

PLACEHOLDER = 8.125
"""A constant of the code object that leads to us, in whose place our function is put."""
WATCHED_CALLS = 2
"""Calls before a treatment in which the function is seen to change nothing outside it."""
MAX_DEPTH = 4
"""Functions called by functions called by it."""
NOT_STEPS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of code whose calls return before its work is done."""
WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")


def key_of(code: CodeType) -> str:
    """What tells a function from all others in every run of the same program."""
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"


def hear(roots: Roots, torch: Any, key: str, guarded: Guarded = nullcontext) -> None:
    """From its second call on, see the calls of the function of this key as those of a root."""
    at_first_call(key, lambda code: replace(code, partial(_stand_in, roots, torch)), guarded)


def at_first_call(key: str, act: Callable[[CodeType], None], guarded: Guarded) -> None:
    """Once the function of this key is called, do something with the code that is run for it.

    `guarded`: around what is ours in the script's calls.
    """
    before = sys.getprofile()

    def look(frame: FrameType, event: Any, arg: Any) -> None:
        if before is not None:
            before(frame, event, arg)
        if event == "call" and key_of(frame.f_code) == key:
            sys.setprofile(before)
            with guarded():
                act(frame.f_code)

    sys.setprofile(look)


def replace(code: CodeType, stand_in_for: Callable[[FunctionType], Callable[..., Any]]) -> None:
    """Have every call of the functions of this code made to a stand-in, which is given the function as it was."""
    for function in functions_of(code):
        _lead_to(function, stand_in_for(_as_it_was(function)))


def users_function(torch: Any, function: FunctionType) -> Any:
    """The module that stands for a function: no weights, named like it, in evaluation mode."""

    def forward(_self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    keep_from_compilers(forward, inside=False)  # the function is compiled where the script has it compiled
    name = function.__name__ if function.__name__.isidentifier() else "function"
    own = {"forward": forward, "outside": lambda _self: Outside(torch, function), "function": staticmethod(function)}
    return type(name, (torch.nn.Module,), own)().eval()


class Outside:
    """What a function reads that is not among its arguments, and what it may change there."""

    def __init__(self, torch: Any, function: FunctionType) -> None:
        self._torch = torch
        self.places: dict[str, Callable[[], Any]] = {}
        """What gives the value of a name now: the program may give the name another one."""
        self.values: dict[str, Any] = {}
        """By name: global variables and those of enclosing functions, except functions, classes and packages."""
        self.writes = ""
        """How it changes something outside by its very code, as the end of a sentence; empty: not that can be read."""
        self._seen: set[int] = set()
        self._enter(function, MAX_DEPTH)

    @property
    def tensors(self) -> list[Any]:
        """All tensors there that are not a module's."""
        return tensors(self._torch, self.values)

    def state(self) -> Leaves:
        """What could be changed there, as it is now."""
        leaves: Leaves = {}
        for name, value in self.values.items():
            leaves |= flat(self._torch, value, name)
            if isinstance(value, self._torch.nn.Module):
                weights = frozenset(weight for weight, _ in value.named_parameters())
                leaves |= {f"{path} of {name}": leaf for path, leaf in state_of(self._torch, value, weights).items()}
        return leaves

    def _enter(self, function: FunctionType, depth: int) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        found: dict[str, Callable[[], Any]] = {name: partial(_content, cell) for name, cell in cells}
        for code in _codes(function.__code__):
            self.writes = self.writes or _written(code)
            here = [name for name in code.co_names if name in function.__globals__]
            found |= {name: partial(function.__globals__.get, name) for name in here}
        for name, place in found.items():
            value = place()
            inner = getattr(value, "__wrapped__", value)
            if isinstance(inner, FunctionType):
                if depth and is_own_file(inner.__code__.co_filename):
                    self._enter(inner, depth - 1)
            elif not isinstance(value, type(sys) | type) and (not callable(value) or hasattr(value, "forward")):
                self.values[name], self.places[name] = value, place


def is_function(module: Any) -> bool:
    """Whether this root is a user's function."""
    return hasattr(module, "outside")


def modules_outside(module: Any) -> list[Any]:
    """The modules that a user's function reads from outside; of any other root none."""
    read = module.outside().values.values() if is_function(module) else ()
    return [value for value in read if hasattr(value, "named_parameters")]


def tensors_read(torch: Any, module: Any) -> Callable[[], dict[str, Any]]:
    """What gives, each time it is called, the values by name that a user's function reads from outside now: tensors,
    lists and dicts with tensors in them, and numbers. Of any other root nothing."""
    outside = module.outside() if is_function(module) else None
    if outside is None:
        return dict
    told = {name for name, value in outside.values.items() if isinstance(value, PLAIN) or tensors(torch, value)}
    places = {name: place for name, place in outside.places.items() if name in told}
    return lambda: {name: place() for name, place in places.items()}


PLAIN = (bool, int, float, complex, str, bytes, type(None))


def why_not_repeatable(module: Any) -> str:
    """Why a root's call cannot be made once more for a comparison, as a sentence's end; empty: it can, or is a model's.

    Known after `WATCHED_CALLS` calls.
    """
    return str(getattr(module, "changes", ""))


@contextmanager
def other_values_outside(torch: Any, module: Any, negate: bool) -> Iterator[int]:
    """Other values in the tensors that a user's function reads from outside; yields how many differ. Put back later."""
    read = module.outside().tensors if is_function(module) else []
    kept = [next(iter(flat(torch, tensor).values())) for tensor in read]
    try:
        yield perturb(torch, read, negate)
    finally:
        for tensor, then in zip(read, kept, strict=True):
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                tensor.copy_(then)


def _as_it_was(function: FunctionType) -> FunctionType:
    """The same function once more: the code of the first is about to be exchanged."""
    real = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    real.__kwdefaults__ = function.__kwdefaults__
    return real


def _stand_in(roots: Roots, torch: Any, real: FunctionType) -> Callable[..., Any]:
    """What is called in the function's place."""
    module = users_function(torch, real)
    roots.adopt(module, FUNCTION, f"{real.__name__}()")
    left = WATCHED_CALLS if roots.asking else 0
    module.changes = Outside(torch, real).writes

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        if roots.is_compiling() or roots.inside():
            return real(*args, **kwargs)
        if not left or module.changes:
            return roots.seen(module, args, kwargs)
        left -= 1
        before = Outside(torch, real).state()
        output = roots.seen(module, args, kwargs)
        after = Outside(torch, real).state()
        changed = [path for path, error in difference.errors(torch, before, after).items() if error]
        module.changes = f"it changes {changed[0]}" if changed else ""
        return output

    keep_from_compilers(called, inside=False)
    return called


def _lead_to(function: FunctionType, stand_in: Callable[..., Any]) -> None:
    """Have every call of the function made to the stand-in."""

    def leading(*args: Any, **kwargs: Any) -> Any:
        ours: Any = 8.125
        return ours(*args, **kwargs)

    code = leading.__code__
    constants = tuple(stand_in if constant == PLACEHOLDER else constant for constant in code.co_consts)
    leading.__code__ = code.replace(co_consts=constants)
    keep_from_compilers(leading, inside=False)
    function.__code__ = leading.__code__.replace(co_freevars=function.__code__.co_freevars)
    keep_from_compilers(function, inside=False)


def functions_of(code: CodeType) -> list[FunctionType]:
    """All functions of this code. A compiler runs another code object than the function's own, with the same key."""
    key = key_of(code)
    # `type`, not `isinstance`: that asks the object, which may be a proxy of something gone
    return [found for found in gc.get_objects() if type(found) is FunctionType and key_of(found.__code__) == key]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code and that of the functions written inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _written(code: CodeType) -> str:
    """The first thing outside that a function's own code changes."""
    for instruction in dis.get_instructions(code):
        outer = instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars
        if instruction.opname in WRITES or outer:
            return f"it sets {instruction.argval}"
        if instruction.argval == "backward" and instruction.opname.startswith("LOAD"):
            return "it computes gradients"
    return ""


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
