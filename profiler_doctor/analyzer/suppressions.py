"""Comments in the user's source that say "I know": `# profiler-doctor: ignore[SYN001]` on the line a finding names."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.model import Where

COMMENT = re.compile(r"#\s*profiler-doctor:\s*ignore(?:\s*\[(?P<words>[^\]]*)\])?", re.IGNORECASE)
EVERYTHING = "all"
"""What a comment without words ignores."""
MOST_BYTES = 4 << 20
"""Larger files are no source that somebody writes by hand."""


@dataclass(frozen=True)
class Comment:
    """One suppression. It speaks for the statement it stands in, which may be a function's head and so all of it."""

    file: str
    """As findings name it."""
    line: int
    words: tuple[str, ...]
    lines: frozenset[int]
    """Lines by which a finding is named that this comment speaks for. Of foreign traces, and of operators between
    tensors, only the function's first line is known, so a comment inside the function is as good as one on that."""

    @property
    def place(self) -> str:
        """For people."""
        return f"{self.file}:{self.line}"


def family_of(code: str) -> str:
    """`SYN` of `SYN001`."""
    return code.rstrip("0123456789")


def names(rule: Rule, words: Iterable[str]) -> bool:
    """Whether one of the words (a code, a family, a name, "all") means this rule."""
    return any(word in (rule.code, family_of(rule.code), rule.name, EVERYTHING) for word in words)


def hiding(rule: Rule, where: Where, folders: Sequence[Path]) -> Comment | None:
    """The comment that hides a finding of this rule at this place, None where there is none."""
    if where.file is None or where.line is None:
        return None
    chosen = (comment for comment in comments_of(where.file, folders) if where.line in comment.lines)
    return next((comment for comment in chosen if names(rule, comment.words)), None)


def comments_of(file: str, folders: Sequence[Path]) -> tuple[Comment, ...]:
    """All suppressions in a source file, () where it is not here. A relative name is looked for in the folders."""
    for folder in folders:
        path = folder / file
        try:
            seen = path.stat()
        except (OSError, ValueError):
            continue
        if path.suffix == ".py" and seen.st_size <= MOST_BYTES:
            return _parsed(file, path, (seen.st_mtime_ns, seen.st_size))
    return ()


@lru_cache(maxsize=1024)
def _parsed(file: str, path: Path, _version: tuple[int, int]) -> tuple[Comment, ...]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(comments_in(text, file)) if "profiler-doctor" in text else ()


def comments_in(text: str, file: str) -> Iterator[Comment]:
    """The suppressions in a Python source text; none where it is not valid Python."""
    try:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTIONS)]
        found = list(_with_statements(text))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return
    for line, words, statement in found:
        around = [span for span in map(_span, nodes) if span[0] <= line <= span[1]]
        first = {max(around)[0]} if around else set()
        headed = [range(node.lineno, _span(node)[1] + 1) for node in nodes if node.lineno in statement]
        yield Comment(file, line, words, frozenset(statement).union(first, *headed))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _span(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[int, int]:
    """First and last line of a function; the first one is its decorator's where it has one, as in code objects."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(node.lineno, *(each.lineno for each in decorators), node.lineno), node.end_lineno or node.lineno


def _with_statements(text: str) -> Iterator[tuple[int, tuple[str, ...], range]]:
    """(line, words, lines of the statement that it stands in) of each suppression."""
    waiting: list[tuple[int, tuple[str, ...]]] = []
    begun = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := COMMENT.search(token.string)):
            waiting.append((token.start[0], _words(match["words"])))
        elif token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER):
            if token.type == tokenize.NL and begun:
                continue
            for line, words in waiting:
                yield line, words, range(begun or line, token.start[0] + 1)
            waiting, begun = [], 0
        elif token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT):
            begun = begun or token.start[0]


def _words(text: str | None) -> tuple[str, ...]:
    words = tuple(word.strip() for word in (text or "").split(",") if word.strip())
    return words or (EVERYTHING,)
