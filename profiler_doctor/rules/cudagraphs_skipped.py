"""CUDA graphs were asked for, and torch.compile left some of the work out of them.

What it finds
    Skips that torch counted in a run on a GPU (`mode="reduce-overhead"` or "max-autotune", or the option itself), with
    the reasons that it gave.

Why it costs
    What is not in a graph is launched kernel by kernel, which is what the graphs were to save.

What to do
    By the reason: keep all tensors of the compiled part on the GPU (a CPU tensor, often a scalar, is enough for a
    skip), do not change inputs in place, run inference under `torch.inference_mode()`, and call
    `torch.compiler.cudagraph_mark_step_begin()` where outputs are kept from step to step.

When not to
    Where the GPU is busy all the time, launching costs nothing and a graph brings nothing.

Source
    PyTorch's documentation of CUDAGraph trees ("limitations"); RULES.md, COM004.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """One finding for the run; its worth is that of a step without gaps between launches, where launches are known."""
    facts = trace.facts
    if facts is None or facts.device == "cpu" or not facts.compiles.cudagraph_skips:
        return
    skips, reasons = facts.compiles.cudagraph_skips, facts.compiles.cudagraph_skip_reasons
    why = f": {reasons[0].rstrip('.')}" if reasons else ""
    yield Sighting(
        message=f"torch.compile left work out of its CUDA graphs {skips} time{'s' if skips > 1 else ''}{why}.",
        where=Where(op="torch.compile"),
        evidence={"skips": skips, "reasons": list(reasons)},
        intervals_ns=judged_steps(trace),
        edit=Edit(no_launch_gaps=True) if len(linked_work(trace)) else None,
    )


RULE = Rule(code="COM004", name="cudagraphs-skipped", doc=__doc__, find=find, needs=(Has.CAPTURE,))
