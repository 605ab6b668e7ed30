"""Regressions to plant in a program: small edits around its call of the model, as a hurried change would make them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SCRATCH = 1 << 20
"""Elements of a buffer that a step allocates: 4 MB, more than any of the samples' own."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """One edit, and the counters of which at least one has to tell of it; none: nothing got worse."""

    edit: Callable[[str], str]
    counters: frozenset[str] = frozenset()
    base: Callable[[str], str] = lambda text: text
    """Makes the program that the edited one is held against."""


def call_of(text: str) -> str:
    """The first call of what is named `model`, as it is written. Raises ValueError where there is none."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "model":
            return ast.get_source_segment(text, node) or ""
    raise ValueError("the program calls nothing that is named model")


def around(form: str) -> Callable[[str], str]:
    """An edit that puts `form` in the place of the call; `{y}` in it is the call itself."""
    return lambda text: text.replace(call_of(text), form.replace("{y}", call_of(text)), 1)


def after_imports(line: str, edit: Callable[[str], str]) -> Callable[[str], str]:
    """An edit, and a line of its own behind the last import."""

    def edited(text: str) -> str:
        body = ast.parse(text).body
        last = max(node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom))
        lines = edit(text).splitlines(keepends=True)
        return "".join([*lines[:last], f"\n{line}\n", *lines[last:]])

    return edited


def compiled(text: str) -> str:
    """The program with its model compiled, as soon as that is made and filled."""
    return _before_loop(text, 'model.compile(backend="eager")')


def broken(text: str) -> str:
    """The same, with a hook that prints: what a compiler cannot take into its graph."""
    return _before_loop(compiled(text), "model.register_forward_hook(lambda *_: print(end=''))")


def _before_loop(text: str, line: str) -> str:
    """A line before the loop (and the mode it stands in) that calls the model."""
    main = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "main")
    first = next(node for node in main.body if isinstance(node, ast.For | ast.With))
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: first.lineno - 1], f"    {line}\n", *lines[first.lineno - 1 :]])


def _relaid(text: str) -> str:
    """Data turned round in memory and read as before; where a batch of one has but one order, the data before it."""
    for old, new in ONE_ORDER.items():
        if old in text:
            return text.replace(old, new, 1)
    return around("{y}.transpose(0, 1).contiguous().transpose(0, 1)")(text)


ONE_ORDER = {
    "model(images)": "model(images.contiguous(memory_format=torch.channels_last).contiguous())",
    "x, y = images[chosen]": "x, y = images[chosen].t().contiguous().t()",
}

SEEDS: Mapping[str, Seed] = {
    "nothing": Seed(edit=lambda text: text + "\n# nothing but a comment\n"),
    "one more launch": Seed(edit=around("{y}.add_(0)"), counters=frozenset({"ops", "launches", "ops.aten::add_"})),
    "a sync": Seed(
        edit=around("(seen := {y}, seen.max().item())[0]"),
        counters=frozenset({"item_calls", "syncs", "ops.aten::item", "ops.aten::_local_scalar_dense"}),
    ),
    "a copy": Seed(edit=around("{y}.clone()"), counters=frozenset({"copied_bytes", "ops.aten::clone"})),
    "a graph break": Seed(edit=broken, base=compiled, counters=frozenset({"graph_breaks", "graphs"})),
    "another type": Seed(edit=around("{y}.float().double()"), counters=frozenset({"casts", "ops.aten::to"})),
    "another layout": Seed(edit=_relaid, counters=frozenset({"layout_transforms", "ops", "ops.aten::contiguous"})),
    "an added op": Seed(edit=around("torch.tanh({y})"), counters=frozenset({"ops", "ops.aten::tanh"})),
    "more memory": Seed(
        edit=around(f"(torch.empty({SCRATCH}), {{y}})[1]"), counters=frozenset({"peak_bytes", "allocated_bytes"})
    ),
    "memory kept": Seed(
        edit=after_imports("KEPT = []", around("(seen := {y}, KEPT.append(torch.empty_like(seen)))[0]")),
        counters=frozenset({"kept_bytes"}),
    ),
}
