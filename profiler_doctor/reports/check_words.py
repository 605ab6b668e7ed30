"""How a check is put into words: counters, times, budgets and places, the same in all its reports."""

from __future__ import annotations

from collections.abc import Iterator

from profiler_doctor.analyzer.gate import OPS, Checked, Place, Row, TimeChange
from profiler_doctor.reports import wording

WORDS = {
    "worse": "worse",
    "better": "better",
    "allowed": "within tolerance",
    "changed": "changed",
    "information": "varies",
    "unknown": "not compared",
    "not comparable": "not comparable",
    "same": "same",
}
ORDER = ("worse", "not comparable", "allowed", "better", "changed", "unknown", "information")
"""What is shown of the rows, the gravest first; `same` is only counted."""
NAMES = {
    "op_sequence": "sequence of ops",
    "op_signature": "shapes, types, layouts",
    "item_calls": ".item() calls",
    "flops": "FLOPs",
    "nchw_convolutions": "NCHW convolutions",
}
HEADINGS = ("counter", "before", "after", "change", "")
"""Of the columns that `cells` gives."""
STATES = {0: "pass", 1: "worse", 2: "unusable", 3: "undecided"}


def name(row: Row) -> str:
    """A counter's name as words; ops and findings keep their own."""
    if row.name.startswith(OPS):
        return wording.plain(row.name.removeprefix(OPS), 80)
    if row.name.startswith("findings."):
        return f"findings of {row.name.removeprefix('findings.')}"
    return NAMES.get(row.name, wording.plain(row.name.replace("_", " "), 80))


def value(row: Row, side: object) -> str:
    """A value with its unit; bytes exactly where two would look alike."""
    if side is None:
        return "–"
    if not isinstance(side, int):
        return wording.plain(side, 40)
    if not row.name.endswith("bytes") and "_bytes_" not in row.name:
        return f"{side:,}"
    shown = [wording.amount(each) for each in (row.before, row.after) if isinstance(each, int)]
    return f"{side:,} B" if len(set(shown)) < len(shown) and row.before != row.after else wording.amount(side)


def change(row: Row) -> str:
    """`+2 (+1.2 %)`; empty for what is no number."""
    if not isinstance(row.before, int) or not isinstance(row.after, int) or row.before == row.after:
        return ""
    difference = row.after - row.before
    relative = f" ({100 * difference / row.before:+.1f} %)" if row.before else ""
    return f"{difference:+,}{relative}"


def shown(checked: Checked) -> list[Row]:
    """The rows that are not the same, the gravest first."""
    rows = [row for row in checked.rows if row.status in ORDER]
    return sorted(rows, key=lambda row: ORDER.index(row.status))


def cells(checked: Checked) -> list[tuple[str, ...]]:
    """Of each row that is not the same: counter, before, after, change, and what that amounts to."""
    found = list[tuple[str, ...]]()
    for row in shown(checked):
        said = WORDS[row.status] + (f": {row.note}" if row.note else "")
        found.append((name(row), value(row, row.before), value(row, row.after), change(row), said))
    return found


def counted(checked: Checked) -> str:
    """How many counters there are, by what became of them."""
    same = sum(row.status == "same" for row in checked.rows)
    parts = [f"{wording.plural(same, 'counter')} the same"] if checked.rows else []
    for status in ORDER:
        number = sum(row.status == status for row in checked.rows)
        parts += [f"{number} {WORDS[status]}"] if number else []
    return ", ".join(parts)


def time(change_: TimeChange) -> str:
    """The sentence about time; empty where it was not asked for."""
    if change_.verdict == "not measured":
        return ""
    instead = " `--no-time` compares counters alone." if change_.verdict == "inconclusive" else ""
    if change_.ratio is None:
        return f"Time: {change_.reason}.{instead}"
    verdicts = {"pass": "no regression", "faster": "faster", "regression": "slower", "inconclusive": "not decided"}
    taken = ""
    if change_.before_ns is not None and change_.after_ns is not None:
        taken = f" ({wording.duration(change_.before_ns)} → {wording.duration(change_.after_ns)} a step)"
    return f"Time: {verdicts.get(change_.verdict, change_.verdict)}, {change_.reason}{taken}.{instead}"


def place(found: Place) -> str:
    """`model.py:12  x = x + 1: 4 → 5 ops (aten::add)`."""
    where = f"{wording.plain(found.file, 200)}:{found.line}"
    gone = " (in the base)" if found.side == "base" else ""
    ops = ", ".join(wording.plain(op, 60) for op in found.ops[:6])
    return f"{where}{gone}  {wording.plain(found.code, 100)}  {found.before} → {found.after} ops ({ops})"


def op_changes(checked: Checked) -> Iterator[tuple[str, str, str]]:
    """Op, calls before and after."""
    for each in checked.ops:
        yield wording.plain(each.name, 80), str(each.before), str(each.after)


def state(checked: Checked) -> str:
    """One word for a workload."""
    return "updated" if checked.updated else STATES[int(checked.exit_code)]
