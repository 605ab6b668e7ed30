"""The sentences for a program that ended before there was anything to diagnose."""

from __future__ import annotations

import signal

from profiler_doctor.analyzer.capture.captured import Options
from profiler_doctor.analyzer.capture.hearing import Hearing
from profiler_doctor.analyzer.capture.launch import Ending, Target
from profiler_doctor.analyzer.errors import ScriptFailed


def unless_worth_another_run(target: Target, heard: Hearing, ending: Ending, options: Options) -> None:
    """Raise where running the program again would not give a recording either."""
    if ending.ended_by_us == "silence":
        raise ScriptFailed(
            f"{target.name} gave no sign of progress for {options.timeout_s:g} s (--timeout) and was ended before "
            "a step was recorded."
        )
    if ending.ended_by_us or heard.ended_at_step:
        raise ScriptFailed(
            f"{target.name} was ended when the {options.budget.total_s:g} s of --budget were spent; nothing was "
            "recorded by then. Give it a larger --budget, or less work before its first steps."
        )
    if ending.status != 0:
        where = "before it imported torch or JAX" if not heard.torch else "before anything was recorded"
        raise ScriptFailed(f"{target.name} {ended_how(ending.status)} {where}. What it said itself stands above.")
    if not heard.torch:
        raise ScriptFailed(f"{target.name} ended without importing torch or JAX, so there is nothing to diagnose.")


def unless_recorded(target: Target, heard: Hearing) -> None:
    """Raise where a run that recorded from its first line on has recorded nothing."""
    if heard.window is None:
        raise ScriptFailed(
            f"{target.name} did not get as far as before when it was run a second time to record it; "
            "its output is in observe.log of the run folder."
        )
    if heard.window.events == 0:
        raise ScriptFailed(f"{target.name} imported torch but ran no torch operation, so there is nothing to diagnose.")


def ended_how(status: int) -> str:
    """ "ended with exit status 3", "was killed by SIGSEGV"."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
