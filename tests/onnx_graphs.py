"""Small ONNX graphs, made when a test wants them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Sizes = Sequence[int | str]


def products(file: Path, sizes: Sizes = ("batch", 8), layers: int = 3) -> Path:
    """x times a matrix of 8 x 8, and tanh of that, `layers` times; a float32 input of `sizes`."""
    import numpy
    from onnx import TensorProto, helper

    random = numpy.random.default_rng(0)
    matrices = {f"w{layer}": random.standard_normal((8, 8)) for layer in range(layers)}
    nodes = []
    for layer in range(layers):
        given = "x" if layer == 0 else f"y{layer - 1}"
        nodes.append(helper.make_node("MatMul", [given, f"w{layer}"], [f"m{layer}"], name=f"product{layer}"))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"y{layer}"], name=f"tanh{layer}"))
    return _saved(file, nodes, (TensorProto.FLOAT, sizes), matrices)


def subnormal(file: Path) -> Path:
    """x plus products with numbers of 1e-40, eight times over: too small to change x, and slow to compute with."""
    import numpy
    from onnx import TensorProto, helper

    nodes = []
    for layer in range(8):
        given = "x" if layer == 0 else f"y{layer - 1}"
        nodes.append(helper.make_node("Mul", [given, "tiny"], [f"m{layer}"], name=f"product{layer}"))
        nodes.append(helper.make_node("Add", ["x", f"m{layer}"], [f"y{layer}"], name=f"sum{layer}"))
    return _saved(file, nodes, (TensorProto.FLOAT, (64, 512)), {"tiny": numpy.full((64, 512), 3e-40)})


def rotated(file: Path, halves: bool = True) -> Path:
    """x turned by a rotary embedding that is spelled out; not `halves`: only multiplied by both its tables."""
    import numpy
    from onnx import TensorProto, helper

    other = "turned" if halves else "x"
    nodes = [helper.make_node("Mul", ["x", "cos"], ["straight"], name="straight")]
    if halves:
        middle, end = "middle", "end"
        nodes += [
            helper.make_node("Slice", ["x", "start", middle, "axis"], ["first"], name="first"),
            helper.make_node("Slice", ["x", middle, end, "axis"], ["second"], name="second"),
            helper.make_node("Neg", ["second"], ["negative"], name="negative"),
            helper.make_node("Concat", ["negative", "first"], ["turned"], name="turned", axis=3),
        ]
    nodes += [
        helper.make_node("Mul", [other, "sin"], ["across"], name="across"),
        helper.make_node("Add", ["straight", "across"], ["y0"], name="sum"),
    ]
    tables = {name: numpy.linspace(0, 1, 256 * 64).reshape(256, 64) for name in ("cos", "sin")}
    places = {"start": [0], "middle": [32], "end": [64], "axis": [3]} if halves else {}
    whole = {name: numpy.array(place, "int64") for name, place in places.items()}
    return _saved(file, nodes, (TensorProto.FLOAT, (1, 8, 256, 64)), tables | whole)


def of_text(file: Path) -> Path:
    """Its input is text."""
    from onnx import TensorProto, helper

    return _saved(file, [helper.make_node("Identity", ["x"], ["y0"], name="same")], (TensorProto.STRING, (1,)), {})


def _saved(file: Path, nodes: list[Any], given: tuple[int, Sizes], constants: dict[str, Any]) -> Path:
    import onnx
    from onnx import helper, numpy_helper

    kind, sizes = given
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, list(sizes))],
        [helper.make_tensor_value_info(nodes[-1].output[0], kind, None)],
        [
            numpy_helper.from_array(values if values.dtype == "int64" else values.astype("float32"), name)
            for name, values in constants.items()
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file
