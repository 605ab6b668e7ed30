"""The line of a function that holds the operator an op came from: `x * y` is no call, so no recording tells its line.

What is known are the function, the op, and the calls before and after it. Where the source has one operator of the op's
kind between them, that is it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MOST_BYTES = 1 << 20
"""Larger files are no source that somebody writes by hand."""
TRUTH = ast.If
"""Stands for everything that asks for a truth value."""
KINDS: dict[str, tuple[type[ast.AST], ...]] = {
    "add": (ast.Add,),
    "sub": (ast.Sub,),
    "mul": (ast.Mult,),
    "div": (ast.Div,),
    "floor_divide": (ast.FloorDiv,),
    "remainder": (ast.Mod,),
    "pow": (ast.Pow,),
    "matmul": (ast.MatMult,),
    "neg": (ast.USub,),
    "bitwise_not": (ast.Invert,),
    "bitwise_and": (ast.BitAnd,),
    "bitwise_or": (ast.BitOr,),
    "bitwise_xor": (ast.BitXor,),
    "lt": (ast.Lt, ast.Gt),
    "gt": (ast.Gt, ast.Lt),
    "le": (ast.LtE, ast.GtE),
    "ge": (ast.GtE, ast.LtE),
    "eq": (ast.Eq,),
    "ne": (ast.NotEq,),
    "index": (ast.Subscript,),
    "index_put": (ast.Subscript,),
    "select": (ast.Subscript,),
    "slice": (ast.Subscript,),
    "is_nonzero": (TRUTH,),
}
"""Op, without its underscore in place → operators that call it. `2 < x` is `x > 2`."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class _Body:
    """A function, or the module itself: its lines, and its own operators, without those of functions inside it."""

    first: int
    last: int
    operators: tuple[tuple[type[ast.AST], int], ...]


def operator_line(path: Path, inside: int, op: str, calls: tuple[int | None, int | None]) -> int | None:
    """The one line that op `op` (`aten::mul`) can come from; None where there is none, or more than one.

    `inside` is a line of the function, `calls` the lines of the calls before and after the op in the same function.
    """
    kinds = KINDS.get(op.removeprefix("aten::").removesuffix("_"))
    try:
        seen = path.stat()
        bodies = _bodies(path, seen.st_mtime_ns) if kinds and seen.st_size <= MOST_BYTES else ()
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    around = [body for body in bodies if body.first <= inside <= body.last]
    if not around or not kinds:
        return None
    lines = {line for kind, line in max(around, key=lambda body: body.first).operators if kind in kinds}
    fitting = {line for line in lines if _between(line, *calls)}
    return fitting.pop() if len(fitting) == 1 else None


def _between(line: int, before: int | None, after: int | None) -> bool:
    """In a loop the call after it may stand above, and where both are one call, the loop's whole body lies between."""
    if before is None or after is None:
        return before is None or line >= before
    if before == after:
        return True
    return before <= line <= after if before < after else line >= before or line <= after


@lru_cache(maxsize=256)
def _bodies(path: Path, _version: int) -> tuple[_Body, ...]:
    text = path.read_text(encoding="utf-8", errors="replace")
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    module = _Body(0, text.count("\n") + 1, tuple(_operators(tree)))
    return (
        module,
        *(_Body(_first(node), node.end_lineno or node.lineno, tuple(_operators(node))) for node in functions),
    )


def _first(node: _Function) -> int:
    """Its decorator's line where it has one, as in code objects."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)])


def _operators(body: ast.AST) -> Iterator[tuple[type[ast.AST], int]]:
    waiting = list(ast.iter_child_nodes(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.BinOp | ast.AugAssign | ast.UnaryOp):
            yield TRUTH if isinstance(node.op, ast.Not) else type(node.op), node.lineno
        elif isinstance(node, ast.Compare):
            yield from ((type(each), node.lineno) for each in node.ops)
        elif isinstance(node, ast.Subscript):
            yield ast.Subscript, node.lineno
        elif isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp):
            yield TRUTH, node.test.lineno
        elif isinstance(node, ast.BoolOp):
            yield TRUTH, node.lineno
