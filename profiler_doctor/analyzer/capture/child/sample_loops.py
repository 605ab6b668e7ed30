"""Loops in the user's source that go over samples one by one and carry nothing from one sample to the next.

Whether anything is carried can only be read, not seen: so a loop is known by its form alone. `[f(p, x) for x in xs]`,
`sum(f(p, x) for x in xs)`, and `for x in xs: …; outs.append(f(p, x))` whose other statements only name what the last
one uses. Such a loop can be written anew as one call, of a function of one sample and of what it goes over.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, Literal

How = Literal["list", "stack", "sum"]
"""What becomes of the samples' results."""
STACKING = ("stack", "array", "asarray")
"""`jnp.stack([…])` of a loop's results gives them as they come from a batch."""
PLACE = b"profiler-doctor: what is called in the loop's place"
"""A constant of the new code, in whose place the function is put."""
ONE = "_one_sample"
HIDDEN = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
"""What an expression cannot hold that is to be a function's body."""


@dataclass(frozen=True)
class SampleLoop:
    """One such loop. Lines are of the file, the first and the last one of the loop."""

    file: str
    line: int
    end_line: int
    function: str
    """The function that it stands in."""
    first_line: int
    """... as its code object knows it."""


@cache
def loops_in(file: str) -> tuple[SampleLoop, ...]:
    """All loops of the form in a source file; none where it cannot be read."""
    found = []
    for function in _functions(file):
        first = _first_line(function)
        nodes = [node for node in _own_nodes(function) if isinstance(node, ast.For | ast.expr)]
        found += [
            SampleLoop(file, node.lineno, node.end_lineno or 0, function.name, first)
            for node in nodes
            if _mapped(node, function) is not None
        ]
    return tuple(found)


def rewritten(code: CodeType, loops: Sequence[SampleLoop], instead: Any) -> CodeType | None:
    """The function's code with `instead(one, sources, how, joining)` in each loop's place; None: it cannot be made.

    `one`: the loop's body as a function; `sources`: what the loop goes over, side by side; `joining`: what makes one
    value of the results where `how` says that something does.
    """
    function = next((one for one in _functions(code.co_filename) if _is_of(one, code)), None)
    if function is None or any(name.startswith("__") and not name.endswith("__") for name in code.co_names):
        return None  # a class's private names would lose their class
    anew = _Anew(function, {loop.line for loop in loops})
    body = anew.generic_visit(function)
    assert isinstance(body, ast.FunctionDef)
    body.decorator_list = []
    around = ast.parse(f"def around({', '.join(code.co_freevars)}): pass")
    assert isinstance(around.body[0], ast.FunctionDef)
    around.body[0].body = [body]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a constant is called
        made = compile(ast.fix_missing_locations(around), code.co_filename, "exec", dont_inherit=True)
    new = _inner(_inner(made, "around"), code.co_name)
    return _filled(new, instead) if anew.places and new.co_freevars == code.co_freevars else None


def _functions(file: str) -> Iterator[ast.FunctionDef]:
    """Parsed anew each time, for a tree is changed by those that use it."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(node.lineno for node in function.decorator_list)])


def _is_of(function: ast.FunctionDef, code: CodeType) -> bool:
    return (function.name, _first_line(function)) == (code.co_name, code.co_firstlineno)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """All in the function's body, but for other functions and classes in it, and for what belongs to a found loop."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            if _mapped(node, function) is None:
                waiting += ast.iter_child_nodes(node)


@dataclass(frozen=True)
class _Mapped:
    """A loop taken apart."""

    names: tuple[str, ...]
    sources: tuple[ast.expr, ...]
    before: tuple[ast.stmt, ...]
    result: ast.expr
    how: How
    joining: ast.expr | None = None
    list_name: str = ""
    """Of a `for`: the list that results are appended to."""


def _mapped(node: ast.AST, function: ast.FunctionDef) -> _Mapped | None:
    if isinstance(node, ast.For):
        return _of_statement(node, function)
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        how: How | None = "sum" if isinstance(node.func, ast.Name) and node.func.id == "sum" else None
        if isinstance(node.func, ast.Attribute) and node.func.attr in STACKING:
            how = "stack"
        inner = node.args[0]
        summed = how == "sum" and isinstance(inner, ast.GeneratorExp)
        if how is not None and (summed or isinstance(inner, ast.ListComp)):
            return _of_comprehension(inner, how, node.func)
    return _of_comprehension(node, "list") if isinstance(node, ast.ListComp) else None


def _of_comprehension(node: ast.AST, how: How, joining: ast.expr | None = None) -> _Mapped | None:
    assert isinstance(node, ast.ListComp | ast.GeneratorExp)
    over = node.generators[0]
    if len(node.generators) > 1 or over.ifs or over.is_async or not _plain(node.elt):
        return None
    taken = _taken(over.target, over.iter)
    return _Mapped(*taken, (), node.elt, how, joining) if taken and _calls(node.elt) else None


def _of_statement(node: ast.For, function: ast.FunctionDef) -> _Mapped | None:
    *before, last = node.body
    taken, call = _taken(node.target, node.iter), last.value if isinstance(last, ast.Expr) else None
    if taken is None or node.orelse or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    holder = call.func.value
    if call.func.attr != "append" or not isinstance(holder, ast.Name) or len(call.args) != 1 or call.keywords:
        return None
    named = _named_only(before)
    inside = {id(one) for one in ast.walk(node)}
    later = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and id(one) not in inside}
    used = _read([*before, call.args[0]])
    if named is None or holder.id in used | named or not _plain(*before, call.args[0]):
        return None
    if (later | _declared(function)) & (named | {*taken[0]}):
        return None
    return (
        _Mapped(*taken, tuple(before), call.args[0], "list", list_name=holder.id)
        if _calls(*before, call.args[0])
        else None
    )


def _named_only(statements: Sequence[ast.stmt]) -> set[str] | None:
    """The names that statements give; None where they do anything else, or read such a name before it is given."""
    named: set[str] = set()
    all_named = {one.id for part in statements for one in ast.walk(part) if isinstance(one, ast.Name) and _stored(one)}
    for statement in statements:
        if not isinstance(statement, ast.Assign) or not all(isinstance(to, ast.Name) for to in statement.targets):
            return None
        if _read([statement.value]) & all_named - named:
            return None
        named |= {to.id for to in statement.targets if isinstance(to, ast.Name)}
    return named


def _taken(target: ast.expr, source: ast.expr) -> tuple[tuple[str, ...], tuple[ast.expr, ...]] | None:
    """The loop's variables, and what each of them goes over."""
    if isinstance(target, ast.Name):
        return (target.id,), (source,)
    zipped = isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "zip"
    if not isinstance(target, ast.Tuple) or not zipped or not isinstance(source, ast.Call) or source.keywords:
        return None
    names = tuple(one.id for one in target.elts if isinstance(one, ast.Name))
    starred = any(isinstance(one, ast.Starred) for one in source.args)
    return (names, tuple(source.args)) if len(names) == len(target.elts) == len(source.args) and not starred else None


def _declared(function: ast.FunctionDef) -> set[str]:
    """Names that are another function's, or the file's."""
    return {name for one in ast.walk(function) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}


def _plain(*nodes: ast.AST) -> bool:
    return not any(isinstance(one, HIDDEN) for node in nodes for one in ast.walk(node))


def _calls(*nodes: ast.AST) -> bool:
    return any(isinstance(one, ast.Call) for node in nodes for one in ast.walk(node))


def _read(nodes: Sequence[ast.AST]) -> set[str]:
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name) and not _stored(one)}


def _stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


class _Anew(ast.NodeTransformer):
    """Writes the loops of these lines anew."""

    def __init__(self, function: ast.FunctionDef, lines: set[int]) -> None:
        self._function = function
        self._lines = lines
        self.places = 0

    def visit(self, node: ast.AST) -> Any:
        """The node, or what takes its place."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            return node
        mapped = _mapped(node, self._function)
        if mapped is None or getattr(node, "lineno", 0) not in self._lines:
            return self.generic_visit(node)
        self.places += 1
        taken = ast.arguments([], [ast.arg(name) for name in mapped.names], None, [], [], None, [])
        if isinstance(node, ast.For):
            body: list[ast.stmt] = [*mapped.before, ast.Return(mapped.result)]
            one = ast.FunctionDef(f"{ONE}_{self.places}", taken, body, [])
            grown = ast.Attribute(ast.Name(mapped.list_name, ast.Load()), "extend", ast.Load())
            return [one, ast.Expr(ast.Call(grown, [_place(ast.Name(one.name, ast.Load()), mapped)], []))]
        return _place(ast.Lambda(taken, mapped.result), mapped)


def _place(one: ast.expr, mapped: _Mapped) -> ast.expr:
    sources = ast.Tuple([*mapped.sources], ast.Load())
    joining = mapped.joining or ast.Constant(None)
    return ast.Call(ast.Constant(PLACE), [one, sources, ast.Constant(mapped.how), joining], [])


def _inner(code: CodeType, name: str) -> CodeType:
    return next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)


def _filled(code: CodeType, instead: Any) -> CodeType:
    return code.replace(co_consts=tuple(instead if one == PLACE else one for one in code.co_consts))
