"""The data loader's workers are started anew for each epoch.

What it finds
    Starts of worker processes, and the first batches after them that the step waits for, at least twice within what was
    recorded: epochs so short that starting up takes a part of them worth speaking of. Where our own capture timed what
    each step spends in loaders, also epochs of more steps than it recorded: slow fetches as often as epochs begin.

Why it costs
    A worker is a process: it is forked or spawned, imports what it needs, gets the dataset, and fills its queue from
    empty. Without `persistent_workers` all of this happens at each `for batch in loader`, and at its end the workers
    are shut down again.

What to do
    `DataLoader(..., persistent_workers=True)`, and make the loader once, outside the loop over epochs: a new loader has
    new workers whatever it is told.

When not to
    Workers that stay keep their copy of the dataset, and with it memory. Where epochs are long their start does not
    matter. For small data in memory no workers at all are faster.

Source
    RULES.md, DAT003; the documentation of torch.utils.data.DataLoader.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.facts import Facts, LoaderFacts
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.fetches import START_UP, WORKERS_START, fetches, stays
from profiler_doctor.analyzer.measures.share import host_share, intervals_of, rows_in_window
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace

EPOCHS = 3
"""With fewer nobody knows how long they are."""
SAME = 2.0
"""Epochs are counted from the start to the recording's end, slow fetches afterwards."""
FETCH = "_MultiProcessingDataLoaderIter.__next__"


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all starts in the window."""
    span, loader = window(trace), _loader(trace)
    known = trace.facts is not None and bool(trace.facts.loaders)
    if span is None or (known and loader is None):
        return
    starts = rows_in_window(trace, trace.rows_named(WORKERS_START.__eq__, ("user_annotation",)))
    firsts = _firsts(trace, starts)
    rows = np.concatenate((starts, firsts))
    part = host_share(trace, rows)
    count = max(len(starts), len(firsts))
    if count < limits["starts"]:
        yield from _in_timed_steps(trace, loader, limits)
    if count < limits["starts"] or part < limits["share"]:
        return
    median_ns = float(np.median(trace.events.dur_ns[fetches(trace).usual])) if len(fetches(trace).usual) else 0.0
    waits = np.maximum(trace.events.dur_ns[firsts], 1)
    within = f"{span.steps} recorded steps" if span.steps else "the recorded window"
    yield Sighting(
        message=f"The data loader's workers were started {count} times within {within}, which takes {part:.0%} of it.",
        where=_where(loader, trace.events.name_of(int(rows[0]))),
        evidence={"starts": count, "share": part, "median_fetch_ns": int(median_ns)},
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(
            keep=dict.fromkeys(starts.tolist(), 0.0)
            | dict(zip(firsts.tolist(), np.minimum(median_ns / waits, 1.0).tolist(), strict=True))
        ),
        basis="workers that stay, and first batches as quick as the others",
    )


def _in_timed_steps(trace: Trace, loader: LoaderFacts | None, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, of the steps that nobody recorded: too few were recorded for two epochs to begin in them."""
    facts, rows = trace.facts, fetches(trace).rows
    if facts is None or loader is None or not len(rows) or len(facts.step_loading_ns) != len(facts.step_ns):
        return
    loading = np.array(facts.step_loading_ns, np.int64)
    usual_ns = float(np.median(loading)) if len(loading) else 0.0
    slow = loading >= START_UP * max(usual_ns, 1.0)
    if int(slow.sum()) < limits["starts"] or not _as_often_as_epochs(facts, loader, float(slow.mean())):
        return
    part = float((loading[slow] - usual_ns).sum() / max(sum(facts.step_ns), 1))
    if part < limits["share"]:
        return
    yield Sighting(
        message=f"The data loader's workers are started anew every {1 / slow.mean():.2g} steps, and waiting for them "
        f"takes {part:.0%} of the steps' time.",
        where=_where(loader, WORKERS_START),
        evidence={"starts": int(slow.sum()), "share": part, "median_fetch_ns": int(usual_ns)},
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=stays(trace, rows, part)),
        basis="workers that stay, and first batches as quick as the others",
    )


def _as_often_as_epochs(facts: Facts, loader: LoaderFacts, slow: float) -> bool:
    """Whether a share of slow fetches is that of epochs; several workers that are too slow take turns at it too."""
    epochs = loader.iterators / max(facts.warmup_steps + len(facts.profiled_step_ns), 1)
    return loader.iterators >= EPOCHS and 1 / SAME <= slow / epochs <= SAME


def _where(loader: LoaderFacts | None, op: str) -> Where:
    return Where(
        file=(loader.file or None) if loader else None,
        line=(loader.line or None) if loader else None,
        op=op,
    )


def _loader(trace: Trace) -> LoaderFacts | None:
    """The one whose workers end with each epoch, begun most often."""
    seen = trace.facts.loaders if trace.facts else ()
    fitting = [one for one in seen if one.workers and not one.persistent]
    return max(fitting, key=lambda one: one.iterators, default=None)


def _firsts(trace: Trace, starts: Ints) -> Ints:
    """The first fetch after each start; where no start was seen, those that took many times the usual one's time."""
    found = fetches(trace)
    if not len(starts):
        slow = found.start_ups
        return slow[[FETCH in name for name in trace.events.names_at(slow)]] if len(slow) else slow
    rows = found.rows[np.argsort(trace.events.start_ns[found.rows], kind="stable")]
    after = np.searchsorted(trace.events.start_ns[rows], trace.events.start_ns[starts])
    firsts: Ints = np.unique(rows[after[after < len(rows)]])
    return firsts


RULE = Rule(
    code="DAT003",
    name="workers-respawn",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "starts": Threshold(2, "starts", "one may be the only one of the whole run"),
        "share": Threshold(0.03, "share of the time", "as DAT001 on a GPU: from there on it is of medium severity"),
    },
)
