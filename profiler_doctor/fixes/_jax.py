"""What the fixes of JAX scripts have in common."""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Machine


def on_one_function(machine: Machine) -> str | None:
    """Why there is no one function to be treated: the words that `Fix.applies` gives."""
    if not machine.has_root:
        return "no module was called"
    if machine.made_anew:
        return "the loop makes its function anew for each step: give it as arguments what it takes from the loop"
    return None
