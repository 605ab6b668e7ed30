"""Where a program spells out in single ops what one op does: norms, rotary embeddings, activations."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from profiler_doctor.analyzer.measures.chains import Chain, full, moved_bytes, result_type
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.sequence import sequence
from profiler_doctor.analyzer.trace import Trace, measure

NORM = (
    r"[px]ma(?:r[xd]|s[d])"  # RMS: x · rsqrt(mean(x²) + ε)
    r"|mu[px]mu?a[sr]u?[dx]"  # mean, x - mean, squared, mean, + ε, root, quotient
    r"|(?:mv|vm|V)u?(?:a[sr]u?[dx]|x?ad)"  # the same with var or std
)
NORM_TAIL = 4
"""At most a cast, a weight (itself cast and shifted) and a bias come after it."""
ROTARY = r"xn[C]k?xa|n[C]k?xxa|xxuxxak?C|xxuxxa"
ACTIVATION = (
    r"x?[px]x{0,3}ax{1,2}hax"  # GELU by its tanh form
    r"|x?[xd]eax"  # GELU by the error function
    r"|ohx|xgx"  # mish; x · sigmoid(1.702 x)
    r"|[ig]L?x"  # gated: silu or GELU times another product
)
Span = tuple[int, int]


@measure
def norms(trace: Trace) -> tuple[Chain, ...]:
    """Layer, RMS and batch norms written out, with the casts around them, their weight and their bias."""
    return _all(_norm(trace, span) for span in sequence(trace).matches(NORM))


@measure
def rotaries(trace: Trace) -> tuple[Chain, ...]:
    """Rotary embeddings written out: x · cos + rotated(x) · sin."""
    return _all(_rotary(trace, span) for span in sequence(trace).matches(ROTARY))


@measure
def activations(trace: Trace) -> tuple[Chain, ...]:
    """Activations written out, and gates: an activation and the product with another tensor of its shape."""
    return _all(_activation(trace, span) for span in sequence(trace).matches(ACTIVATION))


def _all(found: Iterable[Chain | None]) -> tuple[Chain, ...]:
    return tuple(chain for chain in found if chain)


def _norm(trace: Trace, span: Span) -> Chain | None:
    called = sequence(trace)
    core = called.rows[slice(*span)].tolist()
    given = tensors(trace, core[-1])
    if len(given) < 2 or _threads(trace, core) > 1:
        return None
    whole, part = sorted(given[:2], key=lambda operand: -operand.size)
    size, letters = whole.size, called.letters[slice(*span)]
    reduced = [row for row, letter in zip(core, letters, strict=True) if letter in "mvV"]
    alike = len(whole.dims) == len(part.dims) and size > 1 and part.size < size
    if not alike or 0 in whole.dims or not all(full(trace, row, size) for row in (core[0], *reduced)):
        return None
    if any(mine not in (1, theirs) for mine, theirs in zip(part.dims, whole.dims, strict=True)):
        return None
    head = [int(called.rows[span[0] - 1])] if _is_cast(trace, span[0] - 1, size) else []
    rows = (*head, *core, *_tail(trace, span[1], whole.dims, result_type(trace, core[-1])))
    return _chain(trace, rows, whole.dims)


def _tail(trace: Trace, first: int, dims: tuple[int, ...], kind: str) -> tuple[int, ...]:
    """What comes after a norm and is part of it: a cast back, a weight, a bias."""
    called, size, found, last = sequence(trace), prod(dims), [], 0
    for place in range(first, min(first + NORM_TAIL, len(called.rows))):
        row, letter = int(called.rows[place]), called.letters[place]
        whole = full(trace, row, size)
        small = all(operand.size == size or operand.size in dims for operand in tensors(trace, row))
        once = len(whole) <= 1 and letter in "cxa"
        if not once or not small or (letter == "c" and whole and whole[0].type != kind):
            break
        found.append(row)
        if whole:
            last, kind = len(found), result_type(trace, row)
    return tuple(found[:last])


def _rotary(trace: Trace, span: Span) -> Chain | None:
    called = sequence(trace)
    rows, letters = called.rows[slice(*span)].tolist(), called.letters[slice(*span)]
    sums = [row for row, letter in zip(rows, letters, strict=True) if letter in "au"]
    summed = tensors(trace, sums[-1])
    if len(summed) != 2 or summed[0].dims != summed[1].dims or len(summed[0].dims) < 3 or _threads(trace, rows) > 1:
        return None
    halves = [row for row, letter in zip(rows, letters, strict=True) if letter == "n"]
    half = tensors(trace, halves[0])[0].size * 2 if halves and tensors(trace, halves[0]) else summed[0].size
    if half != summed[0].size or any(len(tensors(trace, row)) < 2 for row in _of(rows, letters, "x")):
        return None
    return _chain(trace, tuple(rows), summed[0].dims if halves else (*summed[0].dims, 2))


def _activation(trace: Trace, span: Span) -> Chain | None:
    called, (first, last) = sequence(trace), span
    halved = len(tensors(trace, int(called.rows[last - 1]))) == 1  # x · (0.5 · (1 + tanh)): one more product
    span = (first, last + (halved and called.letters[last : last + 1] == "x"))
    rows, letters = called.rows[slice(*span)].tolist(), called.letters[slice(*span)]
    between = _of(rows, letters, "L")
    rows = [row for row in rows if row not in between]
    given = tensors(trace, rows[-1])
    if not given or _threads(trace, rows) > 1:
        return None
    dims = given[0].dims
    alike = all(operand.dims == dims for row in rows for operand in tensors(trace, row))
    if not alike or not all(tensors(trace, row) for row in rows) or len(given) != 2:
        return None
    return _chain(trace, tuple(rows), dims, reads=2 if len(rows) == 2 else 1)


def _chain(trace: Trace, rows: tuple[int, ...], dims: tuple[int, ...], reads: int = 1) -> Chain:
    names = trace.events.names_at(list(rows))
    casts = tuple(row for row, name in zip(rows, names, strict=True) if name in ("aten::to", "aten::type_as"))
    return Chain(rows, casts, dims, moved_bytes(trace, rows, prod(dims), reads))


def _is_cast(trace: Trace, place: int, size: int) -> bool:
    called = sequence(trace)
    return place >= 0 and called.letters[place] == "c" and bool(full(trace, int(called.rows[place]), size))


def _of(rows: list[int], letters: str, wanted: str) -> list[int]:
    return [row for row, letter in zip(rows, letters, strict=True) if letter == wanted]


def _threads(trace: Trace, rows: list[int]) -> int:
    return len(set(trace.events.thread[rows].tolist()))
