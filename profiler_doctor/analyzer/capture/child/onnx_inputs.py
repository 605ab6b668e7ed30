"""Random inputs for an ONNX graph, of the shapes that it asks for; where it leaves a size open one is chosen, and said.

Integers are 0 or 1: both are a valid index, token or mask in any graph that takes such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""ONNX Runtime's words for what can be made → NumPy's."""
ONE_ITEM = 1
"""A batch that nobody sized: what serving does."""
SIDE = 224
"""Height and width of an image that nobody sized: what most image models were trained on."""
LENGTH = 32
"""Any other open size: a short text."""
SEED = 0


class Unmakeable(Exception):
    """No inputs can be made. The message is a sentence for the user."""


@dataclass
class Chooser:
    """Sizes for what the graph leaves open: as wished, else chosen, the same for the same name."""

    wishes: Mapping[str, str]
    """Name of an open size → size, name of an input → sizes with x between them."""
    chosen: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def shape(self, name: str, asked: Sequence[Any], pictures: bool) -> tuple[int, ...]:
        """The shape of one input. `pictures`: open sizes may be those of an image."""
        if name in self.wishes:
            self.used.add(name)
            return _sizes(name, self.wishes[name])
        return tuple(self._size(name, axis, size, pictures and len(asked) == 4) for axis, size in enumerate(asked))

    def _size(self, name: str, axis: int, asked: Any, picture: bool) -> int:
        if isinstance(asked, int) and asked > 0:
            return asked
        key = asked if isinstance(asked, str) and asked else f"{name}[{axis}]"
        if key in self.wishes:
            self.used.add(key)
            self.chosen[key] = _sizes(key, self.wishes[key])[0]
        return self.chosen.setdefault(key, _usual(key.lower(), axis, picture))


def wishes(arguments: Sequence[str]) -> dict[str, str]:
    """`batch=8` and the like, by name. Raises Unmakeable."""
    for argument in arguments:
        if "=" not in argument:
            raise Unmakeable(
                f"What follows the graph chooses sizes, as in batch=8 or x=8x3x224x224; {argument!r} is none."
            )
    return dict(argument.rsplit("=", 1) for argument in arguments)


def made(numpy: Any, nodes: Sequence[Any], wished: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Name → array for the inputs that a session names, and what they are, in words.

    Raises:
        Unmakeable: an input is of a type that cannot be made, or a wish names nothing.
    """
    chooser, random, arrays = Chooser(wished), numpy.random.default_rng(SEED), {}
    for node in nodes:
        if node.type not in TYPES:
            raise Unmakeable(
                f"The graph's input {node.name} is a {node.type}; inputs are made of numbers in tensors only."
            )
        dtype = numpy.dtype(TYPES[node.type])
        shape = chooser.shape(node.name, node.shape or (), dtype.kind == "f")
        values = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
        arrays[node.name] = numpy.asarray(values).astype(dtype)
    unknown = sorted(set(wished) - chooser.used)
    if unknown:
        known = ", ".join([*(node.name for node in nodes), *chooser.chosen])
        raise Unmakeable(f"The graph has no input and no open size {unknown[0]!r}; it has {known}.")
    return arrays, _words(arrays, chooser)


def _words(arrays: Mapping[str, Any], chooser: Chooser) -> str:
    given = ", ".join(
        f"{name} {array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}" for name, array in arrays.items()
    )
    said = f"The graph was given random inputs: {given or 'it takes none'}."
    ours = {key: size for key, size in chooser.chosen.items() if key not in chooser.wishes}
    if ours:
        sizes = ", ".join(f"{key}={size}" for key, size in ours.items())
        said += f" It leaves sizes open, and these were chosen: {sizes}. `-- {next(iter(ours))}=N` chooses another."
    return said


def _usual(key: str, axis: int, picture: bool) -> int:
    if "batch" in key or (axis == 0 and "seq" not in key and "len" not in key):
        return ONE_ITEM
    return SIDE if picture and axis >= 2 and "seq" not in key and "len" not in key else LENGTH


def _sizes(name: str, text: str) -> tuple[int, ...]:
    parts = text.lower().replace(",", "x").split("x") if text else []
    if not all(part.isdigit() for part in parts) or not parts:
        raise Unmakeable(f"{name}={text}: sizes are whole numbers with x between them, as in 8x3x224x224.")
    return tuple(map(int, parts))
