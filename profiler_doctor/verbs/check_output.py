"""Where a check's answer goes: one form to standard output, all of them into a folder, and to GitHub where it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.errors import CannotWrite
from profiler_doctor.analyzer.gate import Check
from profiler_doctor.reports import check_github, check_json, check_junit, check_markdown, check_sarif, check_text
from profiler_doctor.verbs.destination import put
from profiler_doctor.verbs.output import BadOption

FORMS: Mapping[str, Callable[[Check], bytes]] = {
    "text": lambda check: check_text.text(check).encode("utf-8", "replace"),
    "json": check_json.encoded,
    "md": check_markdown.markdown,
    "sarif": check_sarif.encoded,
    "junit": check_junit.encoded,
    "github": check_github.encoded,
}
FILES = {
    "text": "check.txt",
    "json": "check.json",
    "md": "check.md",
    "sarif": "check.sarif",
    "junit": "check.junit.xml",
}


@dataclass(frozen=True, kw_only=True)
class CheckOutput:
    """How the user wants to be answered."""

    form: str
    out: Path | None
    quiet: bool


def check_output(form: str, out: Path | None, quiet: bool) -> CheckOutput:
    """The checked options. Raises BadOption with the forms that exist."""
    if form not in FORMS:
        raise BadOption(f"--format {form}: there is no such form. Choose from {', '.join(FORMS)}.")
    return CheckOutput(form=form, out=out, quiet=quiet)


def show(check: Check, output: CheckOutput) -> None:
    """Write the files, then standard output."""
    if output.out is not None:
        for name, file in FILES.items():
            put(FORMS[name](check), output.out / file)
    put(FORMS[output.form](check), None)
    _tell_github(check, output)


def _tell_github(check: Check, output: CheckOutput) -> None:
    """Within GitHub Actions: annotations after the text, and the job's summary."""
    if os.environ.get("GITHUB_ACTIONS") == "true" and output.form == "text":
        put(FORMS["github"](check), None)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("ab") as file:
                file.write(FORMS["md"](check))
        except OSError as error:
            raise CannotWrite(f"The job's summary {summary} cannot be written: {error.strerror or error}.") from error
