"""Op after op works through the same tensor element by element.

What it finds
    Three or more ops in a row that work element by element on tensors of one size, outside the backward pass,
    optimizers and compiled code. On a CPU only tensors of 1 MiB or more count: smaller ones stay in the cache.

Why it costs
    Such an op computes next to nothing; its time is that of reading its inputs and writing its result. What one op
    writes the next one reads again, and in between it has left the cache. A compiler makes one loop of all of them.

What to do
    `torch.compile` on the function or module that holds the run. By hand: ops that do two things at once
    (`torch.addcmul`, `torch.lerp`, `F.silu`), or in-place ones, which save the allocation though not the pass.

When not to
    Where an intermediate result is needed elsewhere too it must be written anyway; shapes cannot show that. Compiling
    costs seconds at the start and pays off over many calls only.

Source
    Williams et al. 2009 (roofline model); PyTorch's performance tuning guide, "fuse operations"; RULES.md, FUS001.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.chains import bytes_per_s, described, in_window, stretches
from profiler_doctor.analyzer.measures.one_loop import fused
from profiler_doctor.analyzer.measures.runs import Run, pointwise_runs
from profiler_doctor.analyzer.measures.share import share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules._written_out import AS_ONE_LOOP


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all runs of the window."""
    on_gpu, span = len(linked_work(trace)) > 0, window(trace)
    inside = {chain.rows for chain in in_window(trace, [run.chain for run in pointwise_runs(trace)])}
    runs = [run for run in pointwise_runs(trace) if run.chain.rows in inside and (on_gpu or _large(run, limits))]
    if not runs or span is None or not (on_gpu or bytes_per_s(trace)):
        return
    chains = [run.chain for run in runs]
    part = share(trace, [row for chain in chains for row in chain.rows])
    ops = max(len(chain.rows) for chain in chains)
    yield Sighting(
        message=f"Runs of up to {ops} ops that work element by element on one tensor, {len(runs) / span.per:.3g} times "
        f"per {span.unit}: {part:.1%} of {whole(trace)}.",
        where=where_of(trace, max(chains, key=lambda chain: chain.moved).rows[0]),
        evidence=described(trace, chains)
        | {
            "share": part,
            "bytes_moved": sum(run.each for run in runs),
            "bytes_as_one_op": sum(chain.moved for chain in chains),
        },
        intervals_ns=stretches(trace, chains),
        edit=fused(trace, chains),
        basis="each run as one op" if on_gpu else AS_ONE_LOOP,
    )


def _large(run: Run, limits: Limits) -> bool:
    """Whether what passes between two ops does not stay in the cache; a run moves it twice for each op but the last."""
    return run.each - run.chain.moved >= 2 * (len(run.chain.rows) - 1) * limits["cpu_bytes"]


RULE = Rule(
    code="FUS001",
    name="pointwise-run",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={"cpu_bytes": Threshold(1 << 20, "bytes", "a smaller tensor stays in the cache of one core")},
)
