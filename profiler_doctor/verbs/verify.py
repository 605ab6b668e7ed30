"""`profiler-doctor verify SCRIPT --fix NAME`: put the user's own hypothesis to the test, whatever the rules say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

from profiler_doctor.analyzer.capture.failing import ended_how
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.model import Diagnosis, Trial, Verdict
from profiler_doctor.analyzer.plugins import find, in_file
from profiler_doctor.analyzer.verdict import verdict_of_trial
from profiler_doctor.verbs.run import RunOptions, diagnosed, reported


class BadFix(UserError):
    """A name or a file that gives no fix to try."""


@dataclass(frozen=True)
class VerifyOptions:
    """What `verify` was asked for. `names` as typed, each may hold several with commas between."""

    running: RunOptions
    names: tuple[str, ...]
    files: tuple[Path, ...]


def verify(options: VerifyOptions) -> ExitCode:
    """Record the script, try the fixes that were asked for, and answer for them alone."""
    fixes = asked_for(options.names, options.files)
    files = tuple(str(file.resolve()) for file in options.files)
    running = replace(options.running, attempts=tuple(fix.name for fix in fixes))
    road = diagnosed(running, lambda _: fixes, files)
    return reported(options.running, road, _answered(road.document, fixes, road.captured.script_exit))


def asked_for(names: Sequence[str], files: Sequence[Path]) -> tuple[Fix, ...]:
    """The fixes of these names, and those that the files define. Raises BadFix with names that come close."""
    own = tuple(chain.from_iterable(_own(file) for file in files))
    ours = {fix.name: fix for fix in find("profiler_doctor.fixes", Fix).items}
    for fix in own:
        if ours.get(fix.name, fix) is not fix:
            raise BadFix(f"--fix-file: a fix of ours is called {fix.name!r} already. Give yours another name.")
    known = {**ours, **{fix.name: fix for fix in own}}
    wanted = list(dict.fromkeys(word.strip() for name in names for word in name.split(",") if word.strip()))
    for name in wanted:
        if name not in known:
            raise BadFix(_unknown(name, [fix.name for fix in known.values() if not fix.hidden]))
    chosen = tuple(known[name] for name in wanted) or own
    if not chosen:
        raise BadFix("Name what to try: --fix NAME, or --fix-file mine.py with a fix of your own.")
    return chosen


def _own(file: Path) -> tuple[Fix, ...]:
    try:
        found = in_file(file.resolve(), Fix)
    except FileNotFoundError as error:
        raise BadFix(f"--fix-file {file}: there is no such file in {Path.cwd()}.") from error
    except Exception as error:
        raise BadFix(f"--fix-file {file}: it does not load: {type(error).__name__}: {error}") from error
    if not found:
        raise BadFix(f"--fix-file {file}: it defines no fix. It should end in FIX = Fix(name=…, treat=…).")
    return found


def _unknown(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=3, cutoff=0.6)
    what = f"Did you mean {' or '.join(close)}?" if close else f"Choose from {', '.join(sorted(known))}."
    return f"--fix {name}: there is no such fix. {what}"


def _answered(document: Diagnosis, fixes: Sequence[Fix], script_exit: int | None) -> Diagnosis:
    """With a sentence about the fixes, and the exit code that says what became of them."""
    if script_exit:
        said = f"The script {ended_how(script_exit)}, so nothing is said of a fix."
        return replace(document, verdict=Verdict(sentence=said, exit_code=int(ExitCode.UNUSABLE)))
    names = {fix.name for fix in fixes}
    trials = [trial for trial in document.trials if trial.fix in names]
    together = [trial for trial in document.trials if " + " in trial.fix]
    sentence = " ".join(verdict_of_trial(trial, document.trials) for trial in (*trials, *together))
    return replace(document, verdict=Verdict(sentence=sentence, exit_code=int(_code(trials))))


def _code(trials: Sequence[Trial]) -> ExitCode:
    verdicts = {trial.verdict for trial in trials}
    if "rejected" in verdicts:
        return ExitCode.FINDINGS
    return ExitCode.FINE if verdicts == {"verified"} else ExitCode.INCONCLUSIVE
