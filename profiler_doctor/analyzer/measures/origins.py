"""Where the data of a copy come from, as far as the tensors' identities tell it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profiler_doctor.analyzer.measures.identity import Call, Uses, uses, with_identity
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.trace import Ints, Trace

UNKNOWN = -2
"""Not told, by this recording."""
NO_OP = -1
"""What is copied was there before, or was written to after it was made."""
UNFILLED = ("aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty")
"""Memory that something else has filled, such as a list of numbers or an array of NumPy's."""


def makers(trace: Trace, copy_ops: Ints) -> Ints:
    """For each row of `aten::copy_` the outermost op of its step that made what it reads, else NO_OP or UNKNOWN."""
    told, recorded = uses(trace), trace.stacks
    if told is None or recorded is None:
        return np.full(len(copy_ops), UNKNOWN, np.int64)
    back, step_of = _rows_by_step(trace), _steps(trace)
    found = []
    for row, there in zip(copy_ops.tolist(), with_identity(trace, copy_ops).tolist(), strict=True):
        given = told.given.get(there, ())
        maker = _maker(told, told.storages[given[1]], int(recorded.events.start_ns[there])) if len(given) == 2 else None
        unknown = len(given) != 2 or (maker is not None and maker.name in UNFILLED)
        mine = back.get((maker.row, step_of.get(row, -1)), NO_OP) if maker is not None else NO_OP
        found.append(UNKNOWN if unknown else mine)
    return np.array(found, np.int64)


def comes_of(trace: Trace, fetched: Sequence[int], sent: Sequence[int]) -> tuple[bool | None, ...]:
    """Whether what each copy of `sent` reads was worked out of what the copy of `fetched` beside it wrote.

    Both are rows of `aten::copy_`. None: not known, as where NumPy or a list stands between the two.
    """
    told, recorded = uses(trace), trace.stacks
    if told is None or recorded is None:
        return (None,) * len(sent)
    there = [with_identity(trace, np.array(rows, np.int64)).tolist() for rows in (fetched, sent)]
    return tuple(_comes_of(told, recorded, *pair) for pair in zip(*there, strict=True))


def _comes_of(told: Uses, recorded: Trace, fetched: int, sent: int) -> bool | None:
    wrote, read = told.given.get(fetched, ()), told.given.get(sent, ())
    if len(wrote) != 2 or len(read) != 2:
        return None
    since, until = (int(recorded.events.start_ns[row]) for row in (fetched, sent))
    source, reached = told.storages[read[1]], {told.storages[wrote[0]]}
    for call in told.calls:
        if since < call.start_ns < until and reached & {*told.storages_of(call.given)}:
            reached |= {*call.made, *call.written}
    maker = _maker(told, source, until)
    if source in reached and since < until:
        return True
    return None if maker is None or maker.name in UNFILLED or since >= until else False


def _maker(told: Uses, storage: int, before_ns: int) -> Call | None:
    """The call that made the storage, if no other one has written to it until then."""
    earlier = [call for call in told.calls if call.start_ns < before_ns]
    made = [call for call in earlier if storage in call.made]
    written = any(storage in call.written for call in earlier)
    return made[-1] if made and not written else None


def _steps(trace: Trace) -> dict[int, int]:
    table = ops(trace)
    return dict(zip(table["row"].tolist(), table["step"].tolist(), strict=True))


def _rows_by_step(trace: Trace) -> dict[tuple[int, int], int]:
    """(Row of the recording with stacks, step of the trace) → row of the trace."""
    table = ops(trace)
    rows = table["row"].to_numpy(np.int64)
    there = with_identity(trace, rows).tolist()
    return {
        (twin, step): row
        for twin, step, row in zip(there, table["step"].tolist(), rows.tolist(), strict=True)
        if twin >= 0
    }
