"""What is around every page: one file that asks for nothing, readable without scripts, running only what is ours."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from profiler_doctor import __version__
from profiler_doctor.reports import scripts, wording


def templates() -> Environment:
    """A new environment of our templates; whatever they are given is escaped."""
    made = Environment(
        loader=PackageLoader("profiler_doctor.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(say=wording, version=__version__)
    made.filters["plain"] = wording.plain
    made.filters["prose"] = prose
    return made


def prose(text: object, limit: int = wording.NAME_LIMIT) -> Markup:
    """A sentence of ours: escaped, and what stands between backticks as code."""
    pieces = wording.plain(text, limit).split("`")
    whole = len(pieces) - 1 + len(pieces) % 2  # a last tick without a partner stays one
    told = [
        Markup("<code>{}</code>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces[:whole])
    ]
    return Markup().join([*told, *(escape(f"`{piece}") for piece in pieces[whole:])])


def frame(*fingerprints: str) -> dict[str, object]:
    """What `frame.html` asks for. Beside our own script those with these fingerprints may run."""
    script = _source("page.js")
    return {
        "policy": scripts.policy(scripts.fingerprint(script.encode()), *fingerprints),
        "style": Markup(_source("page.css")),  # noqa: S704  # ours, from the package
        "script": Markup(script),  # noqa: S704  # as above
    }


@cache
def _source(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
