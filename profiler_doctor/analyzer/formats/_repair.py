"""Mend the JSON that profilers are known to break: quotes and backslashes in names, bare N/A and inf, lost commas."""

from __future__ import annotations

import json
import re
from typing import Any

STRING_VALUE = re.compile(r'("[^"\n]*"\s*:\s*")(.*?)"(?=\s*(?:,\s*"[^"\n]+"\s*:|\}))', re.DOTALL)
"""A key and its text, up to the quote that is followed by the next key or the object's end."""
LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrtu])|\\u(?![0-9a-fA-F]{4})')
LONE_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)"')
BARE_WORD = re.compile(r"(:\s*)(?:N/A|[-+]?nan|[-+]?inf(?:inity)?|undefined)(?=\s*[,}\]])", re.IGNORECASE)
"""What 1.8 wrote for a bandwidth that it could not work out."""
TRAILING_COMMA = re.compile(r",(\s*[}\]])")
HEADER_LINE = re.compile(r'^\s*"[^"\n]*"\s*:\s*(?P<value>\S.*?),?\s*$')


def mended(text: str, reader: json.JSONDecoder) -> dict[str, Any] | None:
    """The one object that a broken text was meant to be, None where that cannot be told."""
    for candidate in (BARE_WORD.sub(r"\1null", text), _requoted(text)):
        try:
            value = reader.decode(TRAILING_COMMA.sub(r"\1", candidate))
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _requoted(text: str) -> str:
    return STRING_VALUE.sub(lambda found: f'{found[1]}{_escaped(found[2])}"', BARE_WORD.sub(r"\1null", text))


def _escaped(value: str) -> str:
    return LONE_QUOTE.sub(r'\1\\"', LONE_BACKSLASH.sub(r"\\\\", value))


def header(text: str) -> tuple[dict[str, Any] | None, int]:
    """The object around the events, and how many of its lines had to be left out; None where it is beyond mending.

    kineto writes one key a line, so a value that is broken takes no other with it.
    """
    value = _object(text)
    if value is not None:
        return value, 0
    kept, lost = [], 0
    for line in text.split("\n"):
        if _is_broken(line):
            lost += 1
        else:
            kept.append(line)
    return _object("\n".join(kept)), lost


def _object(text: str) -> dict[str, Any] | None:
    for candidate in (text, TRAILING_COMMA.sub(r"\1", text)):
        try:
            value = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _is_broken(line: str) -> bool:
    found = HEADER_LINE.match(line)
    if found is None:
        return False
    value = found["value"]
    if value[0] in "[{" or value.endswith(("[", "{", "]", "}")):
        return _unbalanced(value)
    try:
        json.loads("{" + line.strip().rstrip(",").rstrip("}") + "}", strict=False)
    except (ValueError, RecursionError):
        return True
    return False


def _unbalanced(value: str) -> bool:
    """Whether a list or object that opens and closes on its line is no JSON."""
    if value.count("[") != value.count("]") or value.count("{") != value.count("}"):
        return False
    try:
        json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return True
    return False
