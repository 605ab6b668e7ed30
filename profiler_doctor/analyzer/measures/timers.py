"""Where the user's own program takes the time: pairs of clock readings, in the recording and in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.frames import FRAME, frames, own_frames
from profiler_doctor.analyzer.trace import Trace, measure

CLOCKS = ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "default_timer")
READING = re.compile(rf"^<built-in (?:function|method) (?:{'|'.join(CLOCKS)})(?: of .*)?>$")
"""How the profiler names the reading of a clock."""
IN_SOURCE = re.compile(r"\b(?:perf_counter|monotonic|default_timer|time\.time|import time|time\(\))")
"""What a source that reads a clock holds: looked for before anything is parsed."""
WAITS = frozenset(
    {"synchronize", "item", "cpu", "tolist", "numpy", "block_until_ready", "elapsed_time", "wait", "result"}
)
"""Calls that return only when the device has got that far."""
LOOPS = (ast.For, ast.While, ast.AsyncFor)


@measure
def clock_pairs(trace: Trace) -> pd.DataFrame:
    """Two clock readings of the user's own code, one after the other in the same call of the same function.

    Asked of a recording with Python stacks. Columns: file, line (the function's, as the profiler names it), thread
    (code), start_ns (the first reading's end), end_ns (the second one's start).
    """
    table, events = frames(trace), trace.events
    reads = np.flatnonzero(events.matching_names(READING.match)[events.name[table.rows]])
    around = table.nesting.parent[reads]
    reads = reads[(around >= 0) & own_frames(trace)[np.maximum(around, 0)]]
    around = table.nesting.parent[reads]
    order = np.lexsort((table.start_ns[reads], around))
    reads, around = reads[order], around[order]
    pair = np.flatnonzero(around[1:] == around[:-1])
    places = [FRAME.match(events.name_of(int(table.rows[caller]))) for caller in around[pair].tolist()]
    return pd.DataFrame(
        {
            "file": [place["file"] if place else "" for place in places],
            "line": [int(place["line"]) if place else 0 for place in places],
            "thread": table.thread[reads[pair]],
            "start_ns": table.end_ns[reads[pair]],
            "end_ns": table.start_ns[reads[pair + 1]],
        }
    )


@dataclass(frozen=True)
class TimedPart:
    """Statements between two readings of a clock whose difference is taken, as they stand in the source."""

    line: int
    """Of the first reading."""
    end_line: int
    loops: bool
    """A loop is among them."""
    waits: bool
    """Something in them waits for a device."""
    warm: bool
    """Something that is called in them was called before, or they are run more than once."""


def timed_parts(text: str) -> tuple[TimedPart, ...]:
    """The timed parts of a Python source; none where it is not valid."""
    if not IN_SOURCE.search(text):
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(found for block, repeated in _blocks(tree, repeated=False) for found in _timed(block, tree, repeated))


def _blocks(node: ast.AST, *, repeated: bool) -> Iterator[tuple[Sequence[ast.stmt], bool]]:
    """Every list of statements, and whether a loop around it runs it more than once."""
    repeated = repeated or isinstance(node, LOOPS)
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value, repeated
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _blocks(child, repeated=repeated)


def _timed(block: Sequence[ast.stmt], tree: ast.AST, repeated: bool) -> Iterator[TimedPart]:
    begun: dict[str, int] = {}
    for place, statement in enumerate(block):
        for first in _differences(statement) & begun.keys():
            inside = block[begun.pop(first) + 1 : place]
            if inside:
                yield _part(block, inside, tree, repeated)
        if isinstance(statement, ast.Assign) and _is_reading(statement.value):
            begun |= {target.id: place for target in statement.targets if isinstance(target, ast.Name)}


def _differences(statement: ast.stmt) -> set[str]:
    """Names from which the statement takes something away: `… - t0`."""
    minus = [node.right for node in ast.walk(statement) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)]
    return {right.id for right in minus if isinstance(right, ast.Name)}


def _part(block: Sequence[ast.stmt], inside: Sequence[ast.stmt], tree: ast.AST, repeated: bool) -> TimedPart:
    first = block[block.index(inside[0]) - 1]
    called = {_name(call) for statement in inside for call in _calls(statement)}
    before = {_name(call) for call in _calls(tree) if call.lineno < first.lineno}
    again = repeated or _called_more_than_once(tree, first)
    return TimedPart(
        line=first.lineno,
        end_line=inside[-1].end_lineno or inside[-1].lineno,
        loops=any(isinstance(node, LOOPS) for statement in inside for node in ast.walk(statement)),
        waits=any(name.rpartition(".")[2] in WAITS for name in called),
        warm=again or bool((called - {"range", "print", "len", "enumerate", "zip"} - _clock_names()) & before),
    )


def _called_more_than_once(tree: ast.AST, statement: ast.stmt) -> bool:
    """Whether the function around the statement is called from several places, in a loop, or from elsewhere."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [node for node in functions if node.lineno <= statement.lineno <= (node.end_lineno or node.lineno)]
    if not around:
        return False
    name = around[-1].name
    looped = [call for loop in ast.walk(tree) if isinstance(loop, LOOPS) for call in _calls(loop)]
    times = sum(_name(call).rpartition(".")[2] == name for call in _calls(tree))
    return times != 1 or any(_name(call).rpartition(".")[2] == name for call in looped)


def _calls(node: ast.AST) -> list[ast.Call]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Call)]


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""


def _is_reading(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _name(value).rpartition(".")[2] in CLOCKS


def _clock_names() -> set[str]:
    return {f"{module}{name}" for module in ("", "time.", "timeit.") for name in CLOCKS}
