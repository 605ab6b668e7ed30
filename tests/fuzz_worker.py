"""The process that reads mutated traces: a path a line in, an outcome a line out; bounded in memory and time."""

from __future__ import annotations

import json
import resource
import signal
import sys
import traceback
from pathlib import Path

from profiler_doctor.analyzer.diagnosis import Subject, diagnosis
from profiler_doctor.analyzer.document import encode
from profiler_doctor.analyzer.engine import UNTOLD, examine
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.reading import read
from profiler_doctor.reports.text import REPORT
from profiler_doctor.verbs.choice import every_rule

MOST_MEMORY = 2 << 30
MOST_SECONDS = 10
"""Of this process's own time, so that a busy machine fails no file."""


class TooSlow(BaseException):
    """Nobody on the way may catch it."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGPROF, _too_slow)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_outcome(Path(line.strip()))) + "\n")
        sys.stdout.flush()


def _too_slow(*_: object) -> None:
    raise TooSlow


def _outcome(path: Path) -> dict[str, object]:
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        return _said(path)
    except UserError as refused:
        return {"kind": "refused", "sentence": str(refused).replace(str(path), "FILE"), "code": refused.exit_code.value}
    except BaseException:
        return {"kind": "broke", "traceback": traceback.format_exc()[-3000:]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _said(path: Path) -> dict[str, object]:
    """Everything that `analyze` says of a file, and the rules that crashed on it."""
    trace = read(path)
    document = diagnosis(Subject(name="fuzzed", command=()), trace, examine(trace, every_rule()))
    encode(document)
    REPORT.render(document, None)
    notes = {note.code: note.events for note in document.health}
    crashed = [f"{outcome.code}: {outcome.reason}" for outcome in document.outcomes if outcome.status == "crashed"]
    crashed += [note.message for note in document.health if note.code == UNTOLD]
    kind = "broke" if crashed else "read"
    return {"kind": kind, "traceback": "; ".join(crashed), "events": document.totals.events, "notes": notes}


if __name__ == "__main__":
    main()
