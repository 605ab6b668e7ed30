"""Runs of ops that work element by element on one size of tensor, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.chains import Chain, result_type
from profiler_doctor.analyzer.measures.decomposed import activations, norms, rotaries
from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.operands import operands, tensors
from profiler_doctor.analyzer.measures.sequence import sequence
from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace, measure

POINTWISE = "parsxudnigheowc"
"""Letters of `sequence` whose op works on each element by itself."""
SHORTEST = 3
LONGEST = 64
"""Ops in one iteration of a loop that are looked for."""


@dataclass(frozen=True)
class Run:
    """A chain of pointwise ops on tensors of one size, and the bytes that the single ops move."""

    chain: Chain
    each: int


@measure
def pointwise_runs(trace: Trace) -> tuple[Run, ...]:
    """Every run of SHORTEST or more ops of which each takes a tensor as large as the one before gave.

    Ops of a norm, rotary embedding or activation that is spelled out are left out: they are found as such. A run ends
    with its step, and one that repeats itself is several: a loop's iterations, whose tensors need not be the same.
    """
    called = sequence(trace)
    letters = np.frombuffer(called.letters.encode("ascii"), np.uint8)
    chosen = np.isin(letters, np.frombuffer(POINTWISE.encode(), np.uint8)) & ~_spelled_out(trace, called.rows)
    chosen[chosen] = trace.events.text("Input Dims").at(called.rows[chosen], -1) >= 0
    places = np.flatnonzero(chosen)
    if len(places) < SHORTEST:
        return ()
    rows = called.rows[places]
    size, step = _sizes(trace, rows), step_at(trace, trace.events.start_ns[rows])
    new = np.ones(len(places), np.bool_)
    new[1:] = (np.diff(places) > 1) | (np.diff(size) != 0) | (np.diff(step) != 0)
    new[1:] |= np.diff(trace.events.thread[rows]) != 0
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(places))
    long = (ends - starts >= SHORTEST) & (size[starts] > 1)
    names = trace.events.name[rows]
    found = []
    for first, last in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
        each = _period(names[first:last])
        parts = range(first, last - SHORTEST + 1, each) if each >= SHORTEST else ()
        found += [_run(trace, rows[part : min(part + each, last)], int(size[first])) for part in parts]
    return tuple(found)


def _period(names: Codes) -> int:
    """After how many ops a run repeats itself; its length if it does not, at least to its half."""
    for each in range(1, min(len(names) // 2, LONGEST) + 1):
        if np.array_equal(names[each:], names[:-each]):
            return each
    return len(names)


def _spelled_out(trace: Trace, rows: Ints) -> Bools:
    mask = np.zeros(len(trace.events), np.bool_)
    for chain in (*norms(trace), *rotaries(trace), *activations(trace)):
        mask[list(chain.rows)] = True
    return mask[rows]


def _sizes(trace: Trace, rows: Ints) -> Ints:
    """Elements of each op's largest tensor; each distinct list of shapes is looked at once."""
    codes = trace.events.text("Input Dims").at(rows, -1)
    _, first, same = np.unique(codes, return_index=True, return_inverse=True)
    distinct = [max((operand.size for operand in tensors(trace, row)), default=0) for row in rows[first].tolist()]
    return np.array(distinct, np.int64)[same]


def _run(trace: Trace, rows: Ints, size: int) -> Run:
    """One tensor of each later op is what the op before gave; the others come from outside, as does the first op's."""
    read = [[width(one.type) or 0 for one in tensors(trace, row) if one.size == size] for row in rows.tolist()]
    written = [width(result_type(trace, row)) or 0 for row in rows.tolist()]
    outside = sum(read[0]) + sum(sum(widths) - max(widths) for widths in read[1:]) + written[-1]
    each = sum(map(sum, read)) + sum(written)
    names = trace.events.names_at(rows)
    casts = [row for row, name in zip(rows.tolist(), names, strict=True) if name in ("aten::to", "aten::type_as")]
    dims = next(one.dims for one in operands(trace, int(rows[0])) if one.dims and one.size == size)
    return Run(Chain(tuple(rows.tolist()), tuple(casts), dims, size * outside), size * each)
