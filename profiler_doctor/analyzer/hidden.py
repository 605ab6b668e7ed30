"""What the user's suppressions hid, and which of them hide nothing any more: said openly, as notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.measures.frames import frames, own_frames, place_in_source
from profiler_doctor.analyzer.model import Finding, HealthNote
from profiler_doctor.analyzer.suppressions import EVERYTHING, Comment, comments_of, names
from profiler_doctor.analyzer.trace import Trace, measure

SUPPRESSED, UNUSED = "SUPPRESSED", "UNUSED-SUPPRESSION"
"""Codes of the notes."""
SHOWN = 10


@dataclass(frozen=True)
class Hidden:
    """One finding that the user does not want to see: by a comment, or by a word of `ignore` (`by` None)."""

    rule: Rule
    finding: Finding
    by: Comment | None


def hidden_notes(hidden: Sequence[Hidden]) -> Iterator[HealthNote]:
    """One note that counts what was hidden and says by what."""
    if not hidden:
        return
    by = [f"{one.rule.code} by {_source(one.by)}" for one in hidden]
    told = list(dict.fromkeys(by))
    more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    message = f"{counted(len(hidden))} suppressed: {', '.join(told[:SHOWN])}{more}."
    yield HealthNote(code=SUPPRESSED, message=message, events=len(hidden))


def counted(findings: int) -> str:
    """ "1 finding is", "2 findings are"."""
    return "1 finding is" if findings == 1 else f"{findings} findings are"


def unused_words(words: Iterable[str], asked: Sequence[Rule], silent: Sequence[str]) -> Iterator[HealthNote]:
    """Words of `ignore` that hid nothing although every rule they mean was asked. `silent`: codes that saw nothing."""
    for word in dict.fromkeys(words):
        meant = [rule for rule in asked if names(rule, (word,))]
        if meant and all(rule.code in silent for rule in meant):
            yield HealthNote(code=UNUSED, message=f"ignore = {word} hid nothing in this recording.")


def unused_comments(
    trace: Trace, folders: Sequence[Path], ran: Sequence[Rule], hidden: Sequence[Hidden]
) -> Iterator[HealthNote]:
    """Comments in the source files of the recording that hid nothing although a rule they mean was asked."""
    used = [one.by for one in hidden]
    for file in own_files(trace) if folders else ():
        for comment in comments_of(file, folders):
            if comment not in used and any(names(rule, comment.words) for rule in ran):
                words = "" if comment.words == (EVERYTHING,) else f" {', '.join(comment.words)}"
                message = f"The comment at {comment.place} (ignore{words}) hid nothing in this recording."
                yield HealthNote(code=UNUSED, message=message)


@measure
def own_files(trace: Trace) -> tuple[str, ...]:
    """The source files of the user's own code that the recording, or the one with stacks beside it, passed through."""
    recorded = trace if trace.stacks is None or len(trace.rows("python_function")) else trace.stacks
    rows = frames(recorded).rows[own_frames(recorded)]
    places = map(place_in_source, {*recorded.events.names_at(rows)})
    return tuple(sorted({place[0] for place in places if place}))


def _source(comment: Comment | None) -> str:
    return f"the comment at {comment.place}" if comment else "--ignore or the settings"
