"""More threads compute one op than there are CPUs for this process.

What it finds
    During a step, more intra-op threads than the CPUs that the process may use: its affinity and its cgroup quota
    together, not what the machine has.

Why it costs
    The threads of one op wait for each other at its end. When one of them has no CPU, all others spin until it gets
    one, and time slices are long compared with an op: steps become several times slower, and do so irregularly.

What to do
    `torch.set_num_threads(len(os.sched_getaffinity(0)))`, or OMP_NUM_THREADS to the same effect, and fewer for models
    of small ops. `os.cpu_count()` counts the machine's CPUs, not the container's.

When not to
    Hardly ever on purpose. How much it costs depends on the size of the ops and on what else runs, so only a trial can
    tell.

Source
    ollama/ollama#17916 (8 threads on 4 CPUs: 45 times slower); PyTorch's notes on CPU threading; pytorch/pytorch#19825.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding; what it is worth only a trial can tell."""
    facts = trace.facts
    if facts is None or facts.device != "cpu" or facts.cpus < 1 or facts.threads <= limits["per_cpu"] * facts.cpus:
        return
    blamed = _set_by(facts.environment, facts.threads)
    file, line = facts.seen_at.get("threads", (None, None))
    yield Sighting(
        message=f"{facts.threads} threads compute each op, but this process may use {_cpus(facts.cpus)}; {blamed}.",
        where=Where(file=file or None, line=line or None),
        evidence={"threads": facts.threads, "cpus": facts.cpus, "environment": _settings(facts.environment)},
        intervals_ns=judged_steps(trace),
    )


def _set_by(environment: Mapping[str, str], threads: int) -> str:
    for name, value in _settings(environment).items():
        if value == str(threads):
            return f"{name}={value} asks for them"
    said = ", ".join(f"{name}={value}" for name, value in _settings(environment).items())
    return f"the script asks for them against {said}" if said else "the script asks for them, or the machine's default"


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in SETTINGS if name in environment}


def _cpus(count: int) -> str:
    return f"{count} CPUs" if count > 1 else "1 CPU"


RULE = Rule(
    code="ENV001",
    name="thread-oversubscription",
    doc=__doc__,
    find=find,
    needs=(Has.CAPTURE,),
    thresholds={"per_cpu": Threshold(1.0, "threads per CPU", "one more than there are CPUs makes all others wait")},
)
