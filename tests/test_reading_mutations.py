"""Traces damaged at random: each ends in a trace whose numbers hold together, or in a sentence."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.measures.modules import modules
from profiler_doctor.analyzer.measures.source import source_of
from profiler_doctor.analyzer.measures.totals import tables, totals
from profiler_doctor.analyzer.reading import read

pytestmark = pytest.mark.usefixtures("reader")
SMALL_BYTES = 8_000
SPANS = (1, 1, 2, 5, 20, 200, 3000)
TOKENS = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-1", b"true", b"\xff", b"\x00", b"0.1"),
    *(b"1e999", b"1e99999999999999999999", str(2**70).encode(), b"9" * 5000, b"-9223372036854775808"),
    *(b'{"ph": "X"}', b'"ts": ', b"}, {", b'"args": []', b'"pid": [1]', b"\\ud800", b"[" * 3000, b'{"a": ' * 3000),
]


def mutated(text: bytes, rng: random.Random) -> bytes:
    """The text with some stretches dropped, doubled, moved or replaced; sometimes cut, packed, and packed badly."""
    damaged = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 3, 8, 40))):
        start = rng.randrange(len(damaged) + 1)
        end = min(start + rng.choice(SPANS), len(damaged))
        other = rng.randrange(len(damaged) + 1)
        damaged[start:end] = rng.choice(
            (
                b"",
                rng.choice(TOKENS),
                bytes(damaged[start:end]) * rng.choice((2, 6)),
                bytes([rng.randrange(256)]),
                bytes(damaged[other : other + end - start]),
            )
        )
    if rng.random() < 0.1:
        del damaged[rng.randrange(len(damaged) + 1) :]
    if rng.random() < 0.2:
        damaged = bytearray(gzip.compress(damaged))
        damaged[rng.randrange(len(damaged))] ^= rng.choice((0, 1, 128))
    return bytes(damaged)


@pytest.mark.parametrize("seed", range(4))
def test_damage_ends_in_numbers_that_hold_together_or_in_a_sentence(seed: int, shared: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    files = [path for path in sorted((shared / "traces").glob("*.json.gz")) if path.stat().st_size < SMALL_BYTES]
    texts = [gzip.decompress(path.read_bytes()) for path in files]
    path = tmp_path / "trace.json"
    for _ in range(25):
        path.write_bytes(mutated(rng.choice(texts), rng))
        try:
            trace = read(path)
        except UnreadableTrace as refused:
            assert str(refused).endswith(".")
            continue
        found = totals(trace)
        assert sum(found.idle_by_cause.values()) == found.idle_ns
        assert found.events == len(trace.events) > 0
        assert len(source_of(trace, trace.rows("cpu_op"))) == len(trace.rows("cpu_op")) >= len(modules(trace))
        tables(trace, 5)
