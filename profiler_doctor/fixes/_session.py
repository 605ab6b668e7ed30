"""A graph of ONNX Runtime in a session of other settings: what the fixes of sessions have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.fixes._engine import first_line
from profiler_doctor.fixes._standin import Standin


def of_graphs(machine: Machine) -> str | None:
    """Why no session's settings can be changed here: the words that `Fix.applies` gives."""
    if not machine.has_root:
        return "no module was called"
    if not machine.onnx_providers:
        return "it sets options of a session of ONNX Runtime, and the target is not an .onnx file"
    return None


def with_settings(**settings: Any) -> Callable[[Root], AbstractContextManager[Callable[..., Any]]]:
    """A `treat` that gives the graph a session of these settings; those of the other fixes stay as they are."""

    @contextmanager
    def treat(root: Root) -> Iterator[Callable[..., Any]]:
        yield in_session(root, settings)

    return treat


def in_session(root: Root, settings: dict[str, Any]) -> Standin:
    """The graph's stand-in. Raises Unsuitable where it is no graph, or ONNX Runtime does not take the settings."""
    if not hasattr(root.module, "changed"):
        raise Unsuitable("the model is not an ONNX graph in a session")
    try:
        graph = root.module.changed(**settings)
    except Exception as error:
        raise Unsuitable(f"ONNX Runtime does not take it: {first_line(error)}") from error
    return Standin(graph, graph.forward, note=graph.note)
