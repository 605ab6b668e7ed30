"""What our own capture observed of a script that imports JAX: a part of the facts, of the standard library alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SampleLoopFacts:
    """One loop that goes over samples in each step of a JAX script, and carries nothing from one to the next."""

    callee: str
    """The function of the script's own that is called for each of them: "predict()"."""
    function: str
    """The one that the loop stands in."""
    file: str
    line: int
    """Where the loop begins."""
    calls: int
    """In one step, each with arguments of the same shapes."""
    outside: bool = False
    """It stands around the function that makes the steps, which are samples; `calls` are those of one loop."""


@dataclass(frozen=True, kw_only=True)
class JaxFacts:
    """What was run where the script imports JAX and not torch."""

    version: str
    function: str = ""
    """The function of the script's own that makes the steps: "update()"; empty: none was found."""
    file: str = ""
    line: int = 0
    jitted: bool = False
    """The script compiles that function with `jax.jit`."""
    loops: tuple[SampleLoopFacts, ...] = ()
    shapes: int = 0
    """Kinds of arguments by their shapes that the function was given in its first calls; 0: not known."""
    objects: int = 0
    """Compiled functions that stood in its place in those calls: more than one where the loop compiles it anew."""
