"""What fusing a chain of ops could bring: the time of the chain in pieces against its time as one kernel.

In pieces every op reads its inputs from memory and writes its result back: Σ(Dᵢ/BW + Fᵢ/FLOPS). As one kernel only what
comes from outside and what leaves is moved: (D_in + D_out)/BW + ΣFᵢ/FLOPS. Both are lower bounds by the same model, so
their difference is an estimate of the gain and not a promise (DESIGN.md, "The rule engine").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """One op of the chain: what it moves and what it computes."""

    bytes: float
    flops: float


@dataclass(frozen=True)
class Rates:
    """What the device can do, measured or known."""

    bytes_per_s: float
    flops_per_s: float


def unfused_ns(chain: Sequence[Piece], rates: Rates) -> float:
    """Nanoseconds that the chain takes at least, one op after the other."""
    return sum(1e9 * (piece.bytes / rates.bytes_per_s + piece.flops / rates.flops_per_s) for piece in chain)


def fused_ns(chain: Sequence[Piece], outside_bytes: float, rates: Rates) -> float:
    """Nanoseconds that the chain takes at least as one kernel; `outside_bytes` are what it reads and writes in all."""
    return 1e9 * (outside_bytes / rates.bytes_per_s + sum(piece.flops for piece in chain) / rates.flops_per_s)
