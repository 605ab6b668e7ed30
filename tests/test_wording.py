"""Numbers and names in words, to the digit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profiler_doctor.analyzer.model import Stake, StepSpread, Trial
from profiler_doctor.reports import wording


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (1_000, "1.00 µs"), (12_345, "12.3 µs"), (99_950, "100 µs"), (999_499, "999 µs"),
        (999_500, "1.00 ms"), (212_000_000, "212 ms"), (2_100_000_000, "2.10 s"), (125_000_000_000, "2 min 5 s"),
    ],
)  # fmt: skip
def test_a_duration_has_three_digits_and_the_unit_that_suits_it(ns: int, text: str) -> None:
    assert wording.duration(ns) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(0.0, "0 %"), (0.0004, "< 0.1 %"), (0.034, "3.4 %"), (0.0996, "10 %"), (0.237, "24 %"), (1.0, "100 %")],
)
def test_a_share_is_a_percentage_and_never_nought_for_something(part: float, text: str) -> None:
    assert wording.share(part) == text


@pytest.mark.parametrize(
    ("key", "raw", "text"),
    [
        ("gap_ns", 1_500, "1.50 µs"), ("sent_bytes", 57_802_752, "57.8 MB"), ("cold_s", 2.1, "2.10 s"),
        ("idle_share", 0.762, "76 %"), ("copy_bytes_per_s", 1.2e10, "12.0 GB/s"), ("kernels", 2700, "2,700"),
        ("shapes", ["a", "b"], "a, b"), ("on", True, "yes"), ("what", None, "not known"),
    ],
)  # fmt: skip
def test_a_value_is_worded_by_the_unit_in_its_name(key: str, raw: object, text: str) -> None:
    assert wording.value(key, raw) == text


def test_a_long_name_keeps_both_ends() -> None:
    shortened = wording.plain("begin" + "x" * 10_000 + "end", 40)

    assert len(shortened) == 40
    assert shortened.startswith("begin")
    assert shortened.endswith("end")


def test_emoji_stay_whole_and_what_turns_the_line_goes() -> None:
    assert wording.plain("👩‍⚕️ é\u202e漢") == "👩‍⚕️ é漢"


def test_an_estimate_says_up_to_and_a_gain_without_doubt_is_not_worded() -> None:
    assert wording.estimate(Stake(share=0.12)) == "up to 12 % of the step (estimate)"
    assert wording.estimate(Stake()) == "only a trial can tell"
    assert wording.speed(Trial(fix="x", verdict="not_tried")) == ""


def test_a_speed_up_travels_with_its_interval_and_its_clock() -> None:
    tried = Trial(fix="x", verdict="verified", speedup=1.314, low=1.27, high=1.351, clock="wall")

    assert wording.speed(tried) == "1.31× as fast (99 % interval 1.27–1.35, wall clock)"


def test_percentiles_memory_and_noise_are_worded_for_both_sides_and_only_where_they_were_measured() -> None:
    bare = Trial(fix="x", verdict="verified")
    known = replace(
        bare,
        before_spread=StepSpread(p50=2_000_000, p95=3_000_000, p99=4_000_000, steps=99),
        after_spread=StepSpread(p50=1_000_000, p95=1_500_000, p99=9_000_000, steps=99),
        before_peak_bytes=1_500_000_000,
        after_peak_bytes=700_000_000,
        noise=0.013,
    )
    assert (wording.tails(bare), wording.memory(bare), wording.noise(bare)) == ("", "", "")
    assert wording.tails(known) == (
        "2.00 ms / 3.00 ms / 4.00 ms before, 1.00 ms / 1.50 ms / 9.00 ms after (p50 / p95 / p99 of single steps)"
    )
    assert wording.memory(known) == "1.50 GB before, 700 MB after"
    assert wording.noise(known) == "doing nothing showed up to 1.3 % on this machine"
