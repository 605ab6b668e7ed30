"""The labelled cases: what each one expects, and whether a run's document gave it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXPECTED = re.compile(r"expect=\"(\w+)\"")
BEFORE_ARGUMENTS = "fix"
"""What a case expects that does not say."""
BAD_ADVICE = {
    "06": ("compile",),
    "12": ("more-workers", "loader-workers"),
    "15": ("autocast-bf16", "weights-bf16"),
    "40": ("pow",),
}
"""Number of a `reject` case → beginnings of the names of the fixes that its header warns of."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One script, and what should be said of it."""

    path: Path
    expected: str
    """`fix`, `reject` or `none`."""

    @property
    def name(self) -> str:
        """As in its file name."""
        return self.path.stem

    @property
    def number(self) -> str:
        """Its first two digits."""
        return self.name[:2]

    def curable(self, documents: Sequence[Document]) -> bool:
        """Whether a run said that a fix of ours is for it; then it is run several times."""
        tried = [trial for document in documents[:1] for trial in document.get("trials", [])]
        return self.expected == "fix" and any(trial["verdict"] != "not_tried" for trial in tried)

    def outcome(self, document: Document) -> str:
        """`as expected`, or what is not."""
        if "trials" not in document:
            return "no document"
        won = [trial["fix"] for trial in document["trials"] if trial["verdict"] == "verified"]
        if self.expected == "none":
            return "as expected" if not document["verdict"]["exit_code"] and not won else "not silent"
        if self.expected == "reject":
            bad = [fix for fix in won if fix.startswith(self._bad_advice(document))]
            return f"bad advice verified: {', '.join(bad)}" if bad else "as expected"
        if won:
            return "as expected"
        tried = any(trial["verdict"] != "not_tried" for trial in document["trials"])
        return ("no fix verified" if tried else "as expected") if findings(document) else "missed"

    def _bad_advice(self, document: Document) -> tuple[str, ...]:
        """What must not win here; half precision may where the CPU computes in it."""
        if self.number == "15" and bf16_units(document["environment"]):
            return ("?",)
        return BAD_ADVICE.get(self.number, ("?",))


def cases(folder: Path) -> list[Case]:
    """All cases of the folder, by number."""
    return [_case(path) for path in sorted(folder.glob("[0-9][0-9]_*.py"))]


def _case(path: Path) -> Case:
    said = EXPECTED.findall(path.read_text(encoding="utf-8"))
    return Case(path, said[-1] if said else BEFORE_ARGUMENTS)


def bf16_units(environment: Document) -> bool:
    """Whether the CPU that a document is from multiplies bfloat16 by itself."""
    flags = (environment.get("cpu") or {}).get("flags", [])
    return bool({"avx512_bf16", "amx_bf16"} & set(flags))


def findings(document: Document) -> list[tuple[str, Document]]:
    """Code and finding of everything that was found and matters."""
    outcomes = document.get("outcomes", [])
    return [(one["code"], finding) for one in outcomes if one["status"] == "found" for finding in one["findings"]]
