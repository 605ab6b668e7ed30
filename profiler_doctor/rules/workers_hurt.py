"""Worker processes fetch data that lie in memory, and the step waits for them all the same.

What it finds
    A data loader with workers over a dataset that holds its tensors or arrays in memory, whose batches the step waits
    for. Whether the workers help or hurt only a trial can tell; this is advice to try it.

Why it costs
    A batch from a worker is put together there, copied into shared memory, and sent through a queue, which takes some
    hundred microseconds and a thread to receive it. To pick a few rows out of a tensor takes less.

What to do
    Try `num_workers=0`. If fetching is still a part of the step worth speaking of, fetch whole batches
    (`sampler=BatchSampler(...)`, `batch_size=None`): see DAT002.

When not to
    Where samples are decoded, augmented or tokenised when they are asked for, workers earn their keep, and more of them
    may be what is missing.

Source
    Lightning-AI/pytorch-lightning#17410, rosinality/style-based-gan-pytorch#108, huggingface/datasets#877.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.facts import LoaderFacts
from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.fetches import fetches
from profiler_doctor.analyzer.measures.share import intervals_of
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, without an estimate."""
    found, loader = fetches(trace), _loader(trace)
    if loader is None or not len(found.rows) or found.single_process:
        return
    if found.share < limits["gpu_share" if found.of == "device" else "step_share"]:
        return
    many = "a worker process" if loader.workers == 1 else f"{loader.workers} worker processes"
    of = "device's time" if found.of == "device" else found.of
    yield Sighting(
        message=f"{found.share:.0%} of the {of} goes into waiting for {many}, though the samples of {loader.dataset} "
        "lie in memory.",
        where=Where(file=loader.file or None, line=loader.line or None, op=trace.events.name_of(int(found.rows[0]))),
        evidence={"share": found.share, "workers": loader.workers, "fetches": len(found.rows)},
        intervals_ns=intervals_of(trace, found.rows),
    )


def _loader(trace: Trace) -> LoaderFacts | None:
    """The one with workers over data in memory that was begun most often."""
    seen = trace.facts.loaders if trace.facts else ()
    fitting = [one for one in seen if one.in_memory and one.workers]
    return max(fitting, key=lambda one: one.iterators, default=None)


RULE = Rule(
    code="DAT004",
    name="workers-hurt",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.CAPTURE),
    thresholds={
        "step_share": Threshold(0.10, "share of the step", "below, there is little to win by any way of loading"),
        "gpu_share": Threshold(0.03, "share of the GPU's time", "from there on a finding is of medium severity"),
    },
)
