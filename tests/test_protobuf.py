"""The wire form of protocol buffers: walk and march agree with a plain reading, and survive what is no message."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from profiler_doctor.analyzer.formats._protobuf import MOST_FIELDS, doubles, march, padded, text, walk
from tests.built_xla import message
from tests.conftest import ROOT
from tests.plain_profiles import fields

MESSAGES = (
    message((1, 5), (2, 1 << 40), (3, "name"), (2, 7)),
    message(),
    message((4, message((1, (1 << 64) - 1))), (19, 300)),
)
"""Three messages: numbers of every length, one given twice, a text, a message within, nothing at all."""


def _laid_out() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(content) for content in MESSAGES])
    return padded(b"".join(MESSAGES)), np.concatenate(([0], ends[:-1])), ends


def test_a_walk_gives_the_fields_of_one_message_in_order() -> None:
    data, trouble = padded(MESSAGES[0]), Counter()
    found = list(walk(data, 0, len(MESSAGES[0]), trouble))
    assert [(field.number, field.value) for field in found] == [(1, 5), (2, 1 << 40), (3, 0), (2, 7)]
    assert text(data, found[2].start, found[2].end) == "name"
    assert not trouble


def test_a_march_gives_the_fields_of_many_messages_each_in_order() -> None:
    data, starts, ends = _laid_out()
    found = march(data, starts, ends, Counter())
    assert found.owner.tolist() == [0, 0, 0, 0, 2, 2]
    assert found.number.tolist() == [1, 2, 3, 2, 4, 19]
    assert found.of(2).last_value(3, default=-1).tolist() == [7, -1, -1]  # the last of two counts
    inner = found.of(4)
    assert march(data, inner.start, inner.end, Counter()).value.tolist() == [(1 << 64) - 1]


def test_a_march_over_no_messages_gives_no_fields() -> None:
    nothing = np.empty(0, np.int64)
    assert len(march(padded(b""), nothing, nothing, Counter()).owner) == 0


def test_numbers_of_64_bits_are_read_as_floating_point_where_they_are() -> None:
    content = b"\x11" + np.array([0.321786]).tobytes()
    (field,) = walk(padded(content), 0, len(content), Counter())
    assert doubles(padded(content), np.array([field.start])).tolist() == [0.321786]


def test_walk_and_march_read_a_real_file_as_a_plain_reading_does() -> None:
    content = (ROOT / "tests" / "data" / "jax_cpu.xplane.pb").read_bytes()
    data = padded(content)
    planes = [field for field in walk(data, 0, len(content), Counter()) if field.number == 1]
    plain = [list(fields(value)) for number, value in fields(content) if number == 1]
    edges = np.array([(plane.start, plane.end) for plane in planes])
    marched = march(data, edges[:, 0], edges[:, 1], Counter())
    for place, (plane, expected) in enumerate(zip(planes, plain, strict=True)):
        walked = list(walk(data, plane.start, plane.end, Counter()))
        assert [field.number for field in walked] == [number for number, _ in expected]
        assert marched.number[marched.owner == place].tolist() == [number for number, _ in expected]


def test_what_is_no_message_ends_early_and_is_counted() -> None:
    rng = random.Random(3)
    for _ in range(300):
        content = rng.randbytes(rng.randrange(1, 40))
        data, walked, marched = padded(content), Counter(), Counter()
        for field in walk(data, 0, len(content), walked):
            assert 0 <= field.start <= field.end <= len(content)
        found = march(data, np.array([0]), np.array([len(content)]), marched)
        assert np.all(found.end <= len(content))
        assert marched["broken"] <= 1


def test_a_message_of_very_many_fields_costs_no_more_than_its_first_ones() -> None:
    content = message(*[(1, 1)] * (2 * MOST_FIELDS))
    found = march(padded(content), np.array([0]), np.array([len(content)]), Counter())
    assert len(found.owner) == MOST_FIELDS
