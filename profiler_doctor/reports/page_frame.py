"""What is around every page: one file that asks for nothing, readable without scripts, running only what is ours."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

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
    return made


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
