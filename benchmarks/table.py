"""The measurements as a page: what each contender took, and how the others' time and memory compare with ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CALLED = {
    "our_reader": "load",
    "our_measures": "load + three breakdowns",
    "our_analysis": "load + whole diagnosis (all measures, rules and replays)",
    "plain_json": "json.loads + the same columns, times as doubles",
    "exact_json": "json.loads + the same columns, times exact (Decimal)",
    "hta": "HolisticTraceAnalysis: load + three breakdowns",
    "torch_tb": "torch_tb_profiler: parse + its pages' numbers",
}
KINDS = {
    "cuda": "`cuda`: distributed training on a GPU, no stacks, no shapes; kineto's own layout",
    "shapes": "`shapes`: inference on a GPU with shapes, strides, memory events and Python stacks; indented",
}
AGAINST = (
    ("plain_json", "our_reader"), ("exact_json", "our_reader"), ("hta", "our_measures"), ("hta", "our_analysis"),
    ("torch_tb", "our_analysis"),
)  # fmt: skip
"""Whose CPU time is divided by whose of ours."""


@dataclass(frozen=True)
class Measured:
    """The median CPU time and the largest memory of one contender on one file."""

    kind: str
    size: int
    text_bytes: int
    name: str
    cpu_s: float
    peak_bytes: int
    events: int


def page(measured: Sequence[Measured], machine: str) -> str:
    """The whole page in Markdown."""
    by_key = {(found.kind, found.size, found.name): found for found in measured}
    lines = [
        "# Performance",
        "",
        f"Measured by `make bench FULL=1` on {machine}.",
        "",
        "Real traces, repeated with later times and ids of their own until they are large, packed as .json.gz. CPU",
        "seconds from the end of the imports on, median of the runs, each in a fresh process, contenders in turns;",
        "peak memory of the whole process, imports and all. Read the ratios: other programs ran on the machine.",
        "",
        *(f"- {words}" for words in KINDS.values()),
        "",
        "| trace | text | events | what | CPU s | peak MB | peak ÷ text |",
        "|---|---|---|---|---|---|---|",
        *(_row(found) for found in measured),
        "",
        "## How many times as long the others take",
        "",
        "| trace | text | " + " | ".join(f"{CALLED[theirs]} ÷ our {CALLED[ours]}" for theirs, ours in AGAINST) + " |",
        "|---|---|" + "---|" * len(AGAINST),
        *_ratios(by_key),
        "",
        "## Cost per MB of text, against that of the smallest file",
        "",
        "| trace | text | load | load + whole diagnosis |",
        "|---|---|---|---|",
        *_linearity(by_key),
    ]
    return "\n".join(lines) + "\n"


def _row(found: Measured) -> str:
    mega = found.text_bytes / 1e6
    return (
        f"| {found.kind} | {mega:.0f} MB | {found.events:,} | {CALLED[found.name]} | {found.cpu_s:.2f} "
        f"| {found.peak_bytes / 1e6:.0f} | {found.peak_bytes / found.text_bytes:.2f} |"
    )


def _files(by_key: dict[tuple[str, int, str], Measured]) -> Iterator[tuple[str, int]]:
    yield from dict.fromkeys((kind, size) for kind, size, _ in by_key)


def _ratios(by_key: dict[tuple[str, int, str], Measured]) -> Iterator[str]:
    for kind, size in _files(by_key):
        pairs = [(by_key.get((kind, size, theirs)), by_key[kind, size, ours]) for theirs, ours in AGAINST]
        if any(theirs for theirs, _ in pairs):
            cells = [f"{theirs.cpu_s / ours.cpu_s:.1f}" if theirs else "–" for theirs, ours in pairs]
            yield f"| {kind} | {pairs[0][1].text_bytes / 1e6:.0f} MB | " + " | ".join(cells) + " |"


def _linearity(by_key: dict[tuple[str, int, str], Measured]) -> Iterator[str]:
    first: dict[tuple[str, str], float] = {}
    for kind, size in _files(by_key):
        cells = []
        for name in ("our_reader", "our_analysis"):
            found = by_key[kind, size, name]
            cost = found.cpu_s / found.text_bytes
            cells.append(f"{cost / first.setdefault((kind, name), cost):.2f}")
        yield f"| {kind} | {by_key[kind, size, 'our_reader'].text_bytes / 1e6:.0f} MB | " + " | ".join(cells) + " |"
