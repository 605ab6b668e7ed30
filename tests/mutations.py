"""Real traces, damaged in the ways that files get damaged and in ways that nobody would think of; seeded."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

LARGEST = 1_000_000
"""Bytes of text; larger traces are left to the benchmarks."""
MOST = 4 * LARGEST
"""A mutated text is cut there: a comma that becomes a thousand digits makes any file large."""
TOKEN = re.compile(rb'"(?:[^"\\]|\\.){0,80}"|-?\d[\d.eE+-]*|true|false|null|[{}\[\]:,]')
REPLACEMENTS = (
    b"null", b"true", b"false", b"NaN", b"-Infinity", b"N/A", b"inf", b"0", b"-1", b"-0.0", b"1e400", b"1e-400", b"0.5",
    b"1180591620717411303424", b"-1180591620717411303424", b"9223372036854775807", b"-9223372036854775808",
    b"18446744073709551615", b"4611686018427387904", b"9" * 5000, b"1712195495519689.047", b"1695835542514261",
    b'""', b'"x"', b'"12"', b'"0x1f"', b'"-"', b'"\\ud800"', b'"\xff\xfe"', b'"a"b"', b'"C:\\path"', b'"tab\there"',
    b'"\\"',
    b"[]", b"{}", b"[1,2]", b"[[[]]]", b'{"a": {}}', b"[null]", b"[1, \"a\", 2.5]", b"[" * 3000, b"{\"a\":" * 3000,
    b"[18446744073709551616]", b"[-5, 0, 9223372036854775807]", b"{", b"}", b"[", b"]", b",", b":", b"", b" ", b"\x00",
    b'"ph"', b'"X"', b'"M"', b'"cat"', b'"kernel"', b'"cpu_op"', b'"cuda_runtime"', b'"user_annotation"',
    b'"python_function"', b'"gpu_memcpy"', b'"cpu_instant_event"', b'"ProfilerStep#3"', b'"args"', b'"ts"', b'"dur"',
    b'"traceEvents"', b'"cudaStreamSynchronize"', b'"cudaLaunchKernel"', b'"aten::copy_"', b'"[memory]"',
)  # fmt: skip
"""What a token may become: numbers at the edges, other kinds, broken text, words that mean something."""

Mutator = Callable[[random.Random, bytearray], None]


def seeds(folder: Path) -> list[tuple[str, bytes]]:
    """The traces of a folder that are small enough, as text (databases and protocol buffers as they are)."""
    found = []
    for path in sorted(folder.glob("**/*.*")):
        content = path.read_bytes()
        text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        if len(text) <= LARGEST and path.suffix != ".md":
            found.append((path.name, text))
    return found


def mutated(rng: random.Random, text: bytes) -> bytes:
    """The text after one to six mutations; one in five is gzipped, and damaged once more as often as not."""
    content = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(TEXT_MUTATORS)(rng, content)
        del content[MOST:]
    if rng.random() < 0.8:
        return bytes(content)
    packed = bytearray(gzip.compress(bytes(content), 1, mtime=0))
    if rng.random() < 0.5:
        rng.choice(BYTE_MUTATORS)(rng, packed)
    return bytes(packed)


def bomb(rng: random.Random) -> bytes:
    """A gzip file that inflates to far more than memory: blanks, one endless text, or events without end."""
    filling = rng.choice((b" ", b"0", b"[", b'{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}, ' * 1000))
    opening = rng.choice((b"", b"[", b'{"traceEvents": [', b'{"traceEvents": [{"ph": "X", "name": "'))
    block = gzip.compress(filling * (4_000_000 // len(filling)), 9, mtime=0)
    return gzip.compress(opening, mtime=0) + block * 1000


def _replace_token(rng: random.Random, content: bytearray) -> None:
    place = _some_token(rng, content)
    if place is not None:
        content[place[0] : place[1]] = rng.choice(REPLACEMENTS)


def _same_token_everywhere(rng: random.Random, content: bytearray) -> None:
    """Rename a key or a text throughout, or give one number a new value throughout."""
    place = _some_token(rng, content)
    if place is not None and place[1] - place[0] > 1:
        content[:] = content.replace(bytes(content[slice(*place)]), rng.choice(REPLACEMENTS[:56]))


def _swap_tokens(rng: random.Random, content: bytearray) -> None:
    first, second = sorted((_some_token(rng, content) or (0, 0), _some_token(rng, content) or (0, 0)))
    if first[1] <= second[0]:
        one, other = bytes(content[slice(*first)]), bytes(content[slice(*second)])
        content[slice(*second)] = one
        content[slice(*first)] = other


def _some_token(rng: random.Random, content: bytearray) -> tuple[int, int] | None:
    found = TOKEN.search(content, rng.randrange(len(content) + 1))
    return found.span() if found else None


def _scale_a_number(rng: random.Random, content: bytearray) -> None:
    place = _some_token(rng, content)
    if place is not None and re.fullmatch(rb"-?\d{1,18}", content[slice(*place)]):
        number = int(content[slice(*place)])
        content[slice(*place)] = str(rng.choice((-number, number * 10**9, number // 1000, number + 1))).encode()


def _flip_bits(rng: random.Random, content: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 4, 64))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _random_bytes(rng: random.Random, content: bytearray) -> None:
    place = rng.randrange(len(content) + 1)
    content[place : place + rng.choice((0, 1, 16))] = rng.randbytes(rng.choice((1, 4, 64)))


def _cut(rng: random.Random, content: bytearray) -> None:
    del content[rng.randrange(len(content) + 1) :]


def _drop_a_stretch(rng: random.Random, content: bytearray) -> None:
    place = rng.randrange(len(content) + 1)
    del content[place : place + rng.choice((1, 10, 200, 20_000))]


def _repeat_a_stretch(rng: random.Random, content: bytearray) -> None:
    place, length = rng.randrange(len(content) + 1), rng.choice((1, 30, 400, 20_000))
    content[place:place] = content[place : place + length] * rng.choice((1, 2, 5))


def _move_a_stretch(rng: random.Random, content: bytearray) -> None:
    place, length = rng.randrange(len(content) + 1), rng.choice((5, 400, 20_000))
    stretch = content[place : place + length]
    del content[place : place + length]
    target = rng.randrange(len(content) + 1)
    content[target:target] = stretch


BYTE_MUTATORS: tuple[Mutator, ...] = (_flip_bits, _random_bytes, _cut, _drop_a_stretch, _repeat_a_stretch)
TEXT_MUTATORS: tuple[Mutator, ...] = (
    *(_replace_token,) * 6, *(_same_token_everywhere,) * 3, *(_swap_tokens,) * 2, *(_scale_a_number,) * 2,
    _move_a_stretch, *BYTE_MUTATORS,
)  # fmt: skip
