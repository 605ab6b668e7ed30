"""Which matrix products of a recording were given the very same tensor: the trace that is written has shapes alone."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from itertools import groupby
from typing import Any

PRODUCT = "aten::linear"
"""What nn.Linear calls; matrix products inside of it are given views of their own."""
EVERY_GROUP = 4096


def shared_inputs(profile: Any) -> tuple[tuple[int, ...], ...]:
    """The starts (wall clock, ns) of products that follow each other on a thread and were given the same tensor.

    Other ops may stand between them; where those make tensors, the second one may have been given a new one in the old
    one's place. Takes about half a microsecond an event. Nothing where this version of torch does not tell.
    """
    with contextlib.suppress(Exception):  # the tree is torch's own affair
        calls: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        waiting = list(profile.profiler.kineto_results.experimental_event_tree())
        while waiting:
            event = waiting.pop()
            if event.name != PRODUCT:
                waiting.extend(event.children)
                continue
            given = event.extra_fields.inputs[0]
            calls[event.start_tid].append((event.start_time_ns, given.impl_ptr, given.storage_data_ptr))
        found: list[tuple[int, ...]] = []
        for thread in calls.values():
            for _, group in groupby(sorted(thread), key=lambda call: call[1:]):
                starts = tuple(start for start, _, _ in group)
                found += [starts] if len(starts) > 1 else []
        return tuple(sorted(found))[:EVERY_GROUP]
    return ()
