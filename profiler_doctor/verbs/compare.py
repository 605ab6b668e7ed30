"""`profiler-doctor compare A B`: two traces or finished documents lined up, and what changed between them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.comparable import compare as compared
from profiler_doctor.analyzer.comparison import Comparison, Side
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.sides import side_of_document, side_of_trace
from profiler_doctor.analyzer.sources import traces
from profiler_doctor.reports import comparison as shown
from profiler_doctor.reports.comparison_page import ROWS, page
from profiler_doctor.verbs.destination import put
from profiler_doctor.verbs.output import BadOption

TOP = 10
"""Rows of each table that a terminal shows."""
LARGEST_DOCUMENT = 1 << 26
"""Bytes; a larger file is a trace, and is not read whole only to find that out."""


class NotOneTrace(UserError):
    """A side of a comparison names several traces."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What `compare` was asked for."""

    before: str
    after: str
    format_: str | None
    """None: by the name of `out`."""
    out: Path | None
    top: int | None
    """Rows of each table; None: as many as suit the format."""


def compare(options: CompareOptions) -> ExitCode:
    """Read both sides, line them up, write what changed. Raises NotComparable (exit code 3) where it means nothing.

    Two documents with counters are judged as a check would: 1 where one got worse, 3 where they cannot be compared.
    """
    encode = _format(options)
    comparison = compared(_side(options.before), _side(options.after))
    put(encode(comparison), options.out)
    return comparison.checked.exit_code


def _side(named: str) -> Side:
    """A document where the file (or the run's folder) is one, else a trace."""
    path = Path(named)
    finished = path / document.FILENAME if (path / document.FILENAME).is_file() else path
    if _is_document(finished):
        return side_of_document(document.load(finished), named)
    found = traces((named,)).traces
    if len(found) > 1:
        raise NotOneTrace(f"{named} holds {len(found)} traces: compare one rank with one rank, and name its file.")
    return side_of_trace(found[0], named)


def _is_document(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > LARGEST_DOCUMENT:
        return False
    content = path.read_bytes()
    return content.lstrip()[:1] == b"{" and b'"schema_version"' in content and b'"outcomes"' in content


def _format(options: CompareOptions) -> Callable[[Comparison], bytes]:
    top = options.top or TOP
    formats: dict[str, Callable[[Comparison], bytes]] = {
        "text": lambda comparison: shown.text(comparison, top).encode("utf-8", "replace"),
        "md": lambda comparison: shown.markdown(comparison, top).encode("utf-8", "replace"),
        "json": lambda comparison: f"{json.dumps(asdict(comparison), indent=2)}\n".encode(),
        "html": lambda comparison: page(comparison, options.top or ROWS),
    }
    named = options.format_ or _by_name(options.out)
    if named not in formats:
        raise BadOption(f"--format {named}: there is no such format. Choose from {', '.join(formats)}.")
    return formats[named]


def _by_name(out: Path | None) -> str:
    """The format that goes without saying: a page where the file is named as one."""
    return "html" if out is not None and out.suffix.lower() in (".html", ".htm") else "text"
