"""A check as GitHub's workflow commands: annotations at the lines that got worse, in the pull request's own diff."""

from __future__ import annotations

from collections.abc import Iterator

from profiler_doctor.analyzer.gate import Check, Checked
from profiler_doctor.reports import check_words, wording

MOST = 10
"""Annotations of one level that GitHub shows of one step."""


def encoded(check: Check) -> bytes:
    """A line for each; nothing where nothing got worse and nothing is in doubt."""
    errors = [line for workload in check.workloads for line in _errors(workload)][:MOST]
    doubts = [
        _command("warning", "", f"{workload.name}: {doubt}")
        for workload in check.workloads
        for doubt in workload.doubts
    ][:MOST]
    return "".join(f"{line}\n" for line in (*errors, *doubts)).encode("utf-8", "replace")


def _errors(checked: Checked) -> Iterator[str]:
    """The regressions; at the first line that does more than it did, where one is known, and one for each such line."""
    places = [place for place in checked.places if place.side == "head"]
    where = f"file={_value(places[0].file)},line={places[0].line}," if places else ""
    for regression in checked.regressions:
        yield _command("error", where, f"{checked.name}: {regression}")
    for place in places[1:]:
        yield _command("error", f"file={_value(place.file)},line={place.line},", check_words.place(place))


def _command(level: str, where: str, said: str) -> str:
    return f"::{level} {where}title=performance check::{_data(wording.plain(said, 1_000))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(wording.plain(text, 400)).replace(":", "%3A").replace(",", "%2C")
