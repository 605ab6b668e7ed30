"""The smallest repeating unit of what a program calls."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture.child.period import MAX_TOKENS, Period, smallest_period


@pytest.mark.parametrize(
    ("tokens", "length", "start"),
    [
        ("aaa", 1, 0),
        ("ababab", 2, 0),  # an encoder and a decoder
        ("pddddpdddd", 5, 0),  # a prefill and four decode calls, twice
        ("xaaaaaaaa", 1, 1),  # one sanity call, then a loop that explains eight times as much
        ("xyababababababababab", 2, 2),
        ("aabaabaab", 3, 0),
    ],
)
def test_the_unit_that_the_end_repeats_is_found_and_what_came_before_is_a_prelude(
    tokens: str, length: int, start: int
) -> None:
    assert smallest_period(tokens) == Period(length, start)


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ("", "nothing was called"),
        ("a", "once is no loop"),
        ("aa", "two equal calls may be one forward and one check"),
        ("abab", "two repeats of a short unit are chance"),
        ("paaa", "three equal decode calls after a prefill are not yet a loop"),
        ("abcabd", "nothing repeats"),
        ("abcdefgh", "every batch has its own shape"),
    ],
)
def test_thin_evidence_is_no_period(tokens: str, why: str) -> None:
    assert smallest_period(tokens) is None, why


@pytest.mark.parametrize(
    ("tokens", "expected"), [("aa", Period(1, 0)), ("abab", Period(2, 0)), ("xaa", Period(1, 1)), ("ab", None)]
)
def test_a_program_that_has_ended_is_believed_after_two_repeats(tokens: str, expected: Period | None) -> None:
    assert smallest_period(tokens, after_the_fact=True) == expected


def test_a_long_history_is_looked_at_from_its_end_and_start_counts_from_its_beginning() -> None:
    tokens = ["other"] * 3000 + ["a", "b"] * MAX_TOKENS
    assert smallest_period(tokens) == Period(2, len(tokens) - MAX_TOKENS)
