"""What of the page is executable: its own script and plotly's, and the policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PACKED = 6
"""zlib's level: 0.12 s of CPU for plotly's 4.8 MB and within 1 % of the best."""
_UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@dataclass(frozen=True)
class Script:
    """A script as the browser will run it, by its fingerprint, and packed (zlib, base64) for the page."""

    packed: str
    fingerprint: str


@cache
def plotly() -> Script | None:
    """plotly's own minified bundle from the installed package; None where it is missing: the page then stays static.

    The Python side of plotly is not imported: the figures are plain dictionaries, and importing it costs as much time
    as rendering all the rest of the page.
    """
    found = importlib.util.find_spec("plotly")
    for folder in (found.submodule_search_locations or []) if found else []:
        file = Path(folder) / "package_data" / "plotly.min.js"
        if file.is_file():
            source = file.read_bytes()
            return Script(base64.b64encode(zlib.compress(source, _PACKED)).decode("ascii"), fingerprint(source))
    return None


def fingerprint(source: bytes) -> str:
    """The hash by which a content security policy allows one script and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode('ascii')}'"


def policy(*fingerprints: str) -> str:
    """A content security policy: no request leaves the page, and only the scripts with these fingerprints run."""
    scripts = " ".join(fingerprints) or "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"


def json_for_script(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can close the element or open a comment."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE)
