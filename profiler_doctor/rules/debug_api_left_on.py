"""A debugging aid is switched on while the program does its real work.

What it finds
    Modes that our capture saw in force during steps: autograd's anomaly mode, a trace function of Python (a debugger or
    coverage), gradcheck; and, where the work ran on a GPU, environment variables that make every launch wait.

Why it costs
    Anomaly mode takes a Python stack at each forward op and checks each gradient for NaN; a trace function runs at each
    line of Python; blocking launches take away all overlap of host and device.

What to do
    Switch it off outside of debugging: `torch.autograd.set_detect_anomaly(False)`, `sys.settrace(None)`, and unset
    CUDA_LAUNCH_BLOCKING, HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL and PYTORCH_NO_CUDA_MEMORY_CACHING.

When not to
    While something is being debugged. The script's own torch.profiler is no such aid: where it runs, a note on the
    measurement says so.

Source
    PyTorch's performance tuning guide ("disable debugging APIs"); the CUDA programming guide on CUDA_LAUNCH_BLOCKING.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

OF_A_GPU = (
    "CUDA_LAUNCH_BLOCKING",
    "HIP_LAUNCH_BLOCKING",
    "AMD_SERIALIZE_KERNEL",
    "AMD_SERIALIZE_COPY",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)
OFF = ("", "0", "false", "off")


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """One finding for each mode and variable; what it is worth only a trial can tell."""
    facts = trace.facts
    if facts is None:
        return
    steps = judged_steps(trace)
    for mode in facts.debug_modes:
        file, line = facts.seen_at.get(mode, (None, None))
        yield Sighting(
            message=f"Left on during the steps: {mode}.",
            where=Where(file=file or None, line=line or None),
            evidence={"mode": mode},
            intervals_ns=steps,
        )
    for name, value in _blocking(facts).items():
        evidence = {"variable": name, "value": value}
        yield Sighting(message=f"{name}={value} was set for this run.", evidence=evidence, intervals_ns=steps)


def _blocking(facts: Facts) -> Mapping[str, str]:
    """Variables that slow a GPU down; where no GPU worked they do nothing, and nothing is said of them."""
    if facts.device == "cpu":
        return {}
    found = {name: facts.environment[name] for name in OF_A_GPU if name in facts.environment}
    return {name: value for name, value in found.items() if value.lower() not in OFF}


RULE = Rule(
    code="ENV002",
    name="debug-api-left-on",
    doc=__doc__,
    find=find,
    needs=(Has.CAPTURE,),
)
