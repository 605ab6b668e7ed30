"""How long one generated loop takes on a CPU for what a chain of ops does, from the ops' own recorded times.

A compiler that fuses a chain removes passes over the memory and the new memory that each op writes into; it removes no
arithmetic. What stays, added up:

- one pass: as long as the quickest op of the chain that makes such a tensor, and longer by as much as the chain as a
  whole moves more bytes than it. Taken from the chain and not from a copy's bandwidth, because where the memory is new
  each time most of an op's time goes into getting it;
- one pass over a cache for each statistic of a norm: as long as that op, at most as long as the quickest;
- the functions. Additions, products, roots and quotients of a vectorised loop hide behind the memory; exp, tanh and erf
  do not. The single op cannot tell what they cost: for float32 and float64 it calls MKL, whose tanh is ten times as
  quick as the one that generated code calls. So that one's price is measured on the machine (`Facts.function_ns`), and
  the others of its kind (log, sin, sigmoid) count as one exp. Dearer ones (pow with a fraction, softplus, mish) are the
  same code in both, and stay with what they take beyond the quickest op;
- once a step the call of the compiled function.

Measured against torch.compile for 18 chains (activations, gates, norms, plain arithmetic) of 0.25 to 4 million elements
in float32, float64 and bfloat16 on one thread of an AVX-512 machine: of 100 savings 79 came out within a quarter; 58
where the longest op stays, 61 where each op's time beyond a copy's does. It is worst for gates of two ops, which save
little, where a step takes less than half a millisecond, and for tanh of large tensors, whose loop takes 9 or 15 ms for
the same 4 million numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures.chains import Chain, full, fusing, in_place, result_type
from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.function_prices import price_ns
from profiler_doctor.analyzer.measures.operands import operands
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

STATISTICS = {"mean", "sum", "var", "std", "var_mean", "std_mean"}
PRICED = {"tanh": "tanh", "erf": "erf", "erfc": "erf", "gelu": "erf"} | dict.fromkeys(
    (
        "exp", "exp2", "expm1", "sigmoid", "silu", "elu", "selu", "celu", "log", "log2", "log10", "sin", "cos", "tan",
        "asin", "acos",
    ),
    "exp",
)  # fmt: skip
"""Function → what a vectorised one costs."""
OWN_PRICE = {
    "pow", "softplus", "mish", "log1p", "log_sigmoid", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh",
    "fmod", "remainder", "lgamma", "hypot", "erfinv", "xlogy", "logit",
}  # fmt: skip
PRODUCTS_DO = {"-2", "-1", "-0.5", "0.5", "1", "2", "3", "4"}
"""Exponents that torch takes by multiplying, dividing and roots."""
TANH_FROM_MEMORY = 1.5
"""Times that price a generated loop takes for tanh of a larger float32 tensor: 1.0 to 2.0 from one run to the next,
measured for 1.5 to 8 million numbers. torch's own loops, the other functions and types keep theirs."""
COLD_CALL_NS, WARM_CALL_NS = 80_000, 15_000
"""The call of a compiled function (guards, buffers, one kernel), after larger tensors went through the caches and not;
measured 60 to 90 and 15 µs, less what calling the single ops takes."""
CACHE_BYTES = 1 << 20
"""What a step's chains move at least to empty the first two levels of a core's cache."""

LARGE_BYTES = 8 << 20
"""What a chain on such a tensor moves at least."""


@dataclass(frozen=True)
class _Op:
    name: str
    row: int
    time_ns: int
    bytes: int
    makes: bool
    """A new tensor of the chain's size."""


def fused(trace: Trace, chains: Sequence[Chain]) -> Edit:
    """Each chain as one kernel on a GPU (see `fusing`), as one loop on a CPU."""
    return fusing(trace, chains) if len(linked_work(trace)) else in_one_loop(trace, chains)


def in_one_loop(trace: Trace, chains: Sequence[Chain]) -> Edit:
    """What stays of each chain is shared out over its ops. Casts keep nothing of it unless the others cannot hold it:
    they may be another finding's to drop.

    Chains of the same ops on the same shape are one case, told by the least that each op took in any of them: another
    program that has the CPU meanwhile lengthens some of the ops, and as much of whatever stands for them.
    """
    span = window(trace)
    steps = span.per if span else 1
    cold = sum(chain.moved for chain in chains) >= CACHE_BYTES * steps
    call_ns = (COLD_CALL_NS if cold else WARM_CALL_NS) * steps / max(len(chains), 1)
    alike: dict[tuple[object, ...], list[Chain]] = {}
    for chain in chains:
        alike.setdefault((chain.dims, *trace.events.names_at(list(chain.rows))), []).append(chain)
    keep: dict[int, float] = {}
    for several in alike.values():
        took_ns = trace.events.dur_ns[[list(chain.rows) for chain in several]].min(axis=0).tolist()
        shares = _shares(several[0], took_ns, loop_ns(trace, several[0], took_ns) + call_ns)
        for chain in several:
            keep.update(zip(chain.rows, shares, strict=True))
    return Edit(keep=keep)


def _shares(chain: Chain, took_ns: Sequence[int], left_ns: float) -> list[float]:
    """Of each op the share that stays where `left_ns` stay in all."""
    casts = [row in chain.casts for row in chain.rows]
    casting = sum(took for took, cast in zip(took_ns, casts, strict=True) if cast)
    rest = sum(took_ns) - casting
    beyond = min(max(left_ns - rest, 0.0) / max(casting, 1), 1.0)
    return [beyond if cast else min(left_ns / max(rest, 1), 1.0) for cast in casts]


def loop_ns(trace: Trace, chain: Chain, took_ns: Sequence[int]) -> float:
    """Nanoseconds that one loop takes for a chain whose ops took so long; it may be more than they took together."""
    size = prod(chain.dims)
    ops = [op for row, took in zip(chain.rows, took_ns, strict=True) if (op := _op(trace, row, took, size)).bytes]
    if not ops:
        return float(sum(took_ns))
    passes = [op for op in ops if op.makes] or ops
    quickest = min(passes, key=lambda op: op.time_ns)
    moving = min(op.time_ns * max(chain.moved / op.bytes, 1.0) for op in passes)
    counting = sum(min(op.time_ns, quickest.time_ns) for op in ops if op.name in STATISTICS)
    return moving + counting + sum(_function_ns(trace, op, quickest, size) for op in ops)


def _op(trace: Trace, row: int, took_ns: int, size: int) -> _Op:
    """What an op moves of tensors of the chain's size; a smaller one (weights, statistics) goes for nothing."""
    name = trace.events.name_of(row).removeprefix("aten::")
    given = full(trace, row, size)
    written = (width(result_type(trace, row)) or 0) if given and name not in STATISTICS else 0
    read = sum(width(operand.type) or 0 for operand in given)
    makes = written > 0 and not in_place(name)
    return _Op(name.removesuffix("_"), row, took_ns, size * (read + written), makes)


def _function_ns(trace: Trace, op: _Op, quickest: _Op, size: int) -> float:
    if op.name in PRICED:
        types = {operand.type for operand in full(trace, op.row, size)}
        price = price_ns(trace, f"{PRICED[op.name]} {'double' if 'double' in types else 'float'}")
        large = op.name == "tanh" and types == {"float"} and op.bytes > LARGE_BYTES
        return price * size * (TANH_FROM_MEMORY if large else 1.0)
    if op.name not in OWN_PRICE or (op.name == "pow" and _exponent(trace, op.row) in PRODUCTS_DO):
        return 0.0
    return max(op.time_ns - quickest.time_ns * max(op.bytes / quickest.bytes, 1.0), 0.0)


def _exponent(trace: Trace, row: int) -> str:
    """The number as text without a fraction of zero; "" for a tensor."""
    given = operands(trace, row)
    return given[1].value.removesuffix(".0").removesuffix(".") if len(given) > 1 else ""
