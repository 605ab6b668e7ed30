"""A model's call handed to another engine, which knows nothing but rows of tensors.

An engine is built for the call that it was shown: which tensors there are, of which shapes and dtypes, and what else
is among the arguments. A call that looks otherwise gets an engine of its own, or is made by the model itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from profiler_doctor.analyzer.capture.child.users_function import modules_outside, tensors_read
from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.fixes._nested import replaced

MOST_ENGINES = 8
"""As many shapes as torch.compile specialises on before it gives up."""
PLAIN = (bool, int, float, complex, str, bytes, type(None))

Build = Callable[[Any, tuple[Any, ...]], Callable[..., Sequence[Any]]]
"""From a module that takes and gives a row of tensors, and such a row, to the engine's own call. One that takes more
shapes than it was shown has a method `fits`, which is given a row."""


class Slot:
    """The place of a tensor in a structure."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot)

    def __hash__(self) -> int:
        return 0


def taken_apart(torch: Any, value: Any) -> tuple[Any, list[Any]]:
    """The structure with slots in the places of its tensors, and the tensors in order."""
    tensors: list[Any] = []

    def slot(tensor: Any) -> Slot:
        tensors.append(tensor)
        return Slot()

    return replaced(value, torch.Tensor, slot), tensors


def put_together(structure: Any, tensors: Sequence[Any]) -> Any:
    """The structure with tensors in its slots."""
    rest = iter(tensors)
    return replaced(structure, Slot, lambda _: next(rest))


def fits_inference(machine: Machine) -> str | None:
    """Why no engine can take over here: the words that `Fix.applies` gives."""
    if machine.training:
        return "the script trains, and what such an engine holds is fixed"
    if machine.compiled:
        return "the script compiles its model already"
    return None if machine.has_root else "no module was called"


Outside = Literal["refused", "traced", "left"]
"""What becomes of the tensors that a user's function reads from outside: they would be held as they are now; the engine
tells by their identity that they are further inputs; or it reads them where they lie."""


def handed_over(root: Root, build: Build, outside: Outside = "refused") -> Callable[..., Any]:
    """The call in the place of the root's. Raises Unsuitable where its arguments are more than tensors and numbers."""
    import torch

    read = tensors_read(torch, root.module) if outside != "left" else dict
    structure, tensors = taken_apart(torch, (tuple(root.args), dict(root.kwargs), read()))
    strange = _strange(structure)
    if strange is not None:
        raise Unsuitable(f"the model takes a {strange}, which cannot be handed to such an engine")
    own = taken_apart(torch, read())[1]
    if own and outside == "refused":
        raise Unsuitable("the function reads tensors beside its arguments, which such an engine would hold as they are")
    if len({id(tensor) for tensor in own}) < len(own):
        raise Unsuitable("the function reads one tensor by several names, which a trace cannot tell apart")
    engines = [_engine(root, build, structure, tensors)]

    def call(*args: Any, **kwargs: Any) -> Any:
        structure, tensors = taken_apart(torch, (args, kwargs, read()))
        for engine in engines:
            if engine.knows(structure, tensors):
                return put_together(engine.output, engine.call(*tensors))
        if len(engines) == MOST_ENGINES or _strange(structure) is not None:
            return root.call(*args, **kwargs)
        engines.append(_engine(root, build, structure, tensors))
        return put_together(engines[-1].output, engines[-1].call(*tensors))

    return call


@dataclass(frozen=True)
class _Engine:
    """One built engine, and the call that it was built for."""

    structure: Any
    shapes: tuple[Any, ...]
    call: Callable[..., Sequence[Any]]
    output: Any
    """The structure of what the model gives."""

    def knows(self, structure: Any, tensors: Sequence[Any]) -> bool:
        fits = getattr(self.call, "fits", None)
        same = self.shapes == _shapes(tensors) if fits is None else fits(tensors)
        return bool(same and self.structure == structure)


def _engine(root: Root, build: Build, structure: Any, tensors: list[Any]) -> _Engine:
    import torch

    outputs: list[Any] = []
    own = {id(tensor) for tensor in taken_apart(torch, tensors_read(torch, root.module)())[1]}
    row = tuple(tensor if id(tensor) in own else tensor.detach() for tensor in tensors)
    with torch.no_grad():
        call = build(_row_module(root, structure, outputs), row)
    if not outputs or _strange(outputs[0]) is not None:
        what = _strange(outputs[0]) if outputs else "result that was never seen"
        raise Unsuitable(f"the model gives a {what}, which such an engine cannot give back")
    return _Engine(structure, _shapes(tensors), call, outputs[0])


def _row_module(root: Root, structure: Any, outputs: list[Any]) -> Any:
    """The root as a module of rows. It notes the structure of its output; its buffers are its own."""
    import torch

    plain = root.call in (root.module, root.module._call_impl)
    module = copied(root.module) if plain else root.module
    inner_call = module if plain else root.call

    class Row(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module
            self.read = torch.nn.ModuleList(modules_outside(root.module))
            self.training = False  # of this shell alone

        def forward(self, *row: Any) -> Any:
            args, kwargs, _ = put_together(structure, row)
            shape, tensors = taken_apart(torch, inner_call(*args, **kwargs))
            outputs[:] = [shape]
            return tuple(tensors)

    return Row()


def copied(module: Any) -> Any:
    """A copy that may be run unseen by the user's module: its weights are the same objects, all else is its own."""
    return copy.deepcopy(module, {id(weight): weight for weight in module.parameters()})


def _shapes(tensors: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def _strange(structure: Any) -> str | None:
    """The type of something in the structure that an engine would have to know more of; None: there is none."""
    if isinstance(structure, dict):
        return next(filter(None, map(_strange, structure.values())), None)
    if isinstance(structure, tuple | list):
        return next(filter(None, map(_strange, structure)), None)
    return None if isinstance(structure, (Slot, *PLAIN)) else type(structure).__name__


def first_line(error: Exception) -> str:
    """What an exception says first, short enough for a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200].rstrip(":.") if lines else type(error).__name__
