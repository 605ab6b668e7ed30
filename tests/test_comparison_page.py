"""The page of a comparison: the same as the text tells, no request, under 3 MB, nothing runs but ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer.comparison import Amount, Change, Comparison, StepChange
from profiler_doctor.analyzer.totals import StepTime
from profiler_doctor.reports.comparison_page import ROWS, page
from tests import documents
from tests.browser import CHROMIUM, Browser
from tests.page_text import PageText


def change(name: str, before_ns: int, after_ns: int) -> Change:
    return Change(
        name=name,
        status="changed",
        before=Amount(count=2, host_ns=before_ns, gpu_ns=0),
        after=Amount(count=2, host_ns=after_ns, gpu_ns=0),
        host_change_ns=after_ns - before_ns,
        gpu_change_ns=0.0,
    )


def comparison(*ops: Change, name: str = "run") -> Comparison:
    step = StepTime(median=4_000, low=3_900, high=4_100)
    return Comparison(
        before=f"{name}-a",
        after=f"{name}-b",
        unit="recording",
        steps_before=5,
        steps_after=5,
        step=StepChange(
            before=step, after=replace(step, median=2_000), ratio=2.0, verdict="faster", reason="they lie apart"
        ),
        numbers=(),
        ops=ops,
        modules=(),
        kernels=(),
        notes=(f"{name} was noted",),
    )


def parsed(made: Comparison, top: int = ROWS) -> PageText:
    return PageText(page(made, top).decode("utf-8"))


def test_it_tells_the_step_and_what_changed_most() -> None:
    text = parsed(comparison(change("aten::mm", 3_000, 1_000), change("aten::add", 100, 300))).text

    assert "B is 2.00× as fast as A" in text
    assert "2 changed" in text
    assert "aten::mm 2 3.00 µs → 1.00 µs -2.00 µs (-66.7 %)" in text
    assert "run was noted" in text


def test_less_time_goes_to_the_left_and_more_to_the_right() -> None:
    page_ = parsed(comparison(change("aten::mm", 3_000, 1_000), change("aten::add", 100, 300)))

    bars = [(name, value) for tag, name, value in page_.attributes if tag == "rect" and name in ("class", "x", "width")]
    assert bars == [
        ("class", "verified"), ("x", "0.00%"), ("width", "50.00%"),
        ("class", "rejected"), ("x", "50.00%"), ("width", "5.00%"),
    ]  # fmt: skip


def test_what_is_left_out_is_said() -> None:
    made = comparison(*(change(f"op{n}", 1_000 - n, 0) for n in range(ROWS + 7)))

    assert "7 smaller changes left out" in parsed(made).text
    assert "206 smaller changes left out" in parsed(made, top=1).text


@pytest.mark.parametrize("name", [*documents.NASTY, '"<&>' * 2_500], ids=lambda name: name[:12])
def test_no_name_becomes_markup_and_many_stay_small(name: str) -> None:
    tame = comparison(*(change("plain", 9, n) for n in range(1_000)))
    made = comparison(*(change(name, 9, n) for n in range(1_000)), name=name)

    assert len(page(made)) < 3_000_000
    assert sorted(parsed(made).tags) == sorted(parsed(tame).tags)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.xdist_group("browser")
def test_in_a_browser_it_sorts_asks_for_nothing_and_fits_a_telephone(tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_bytes(page(comparison(change("aten::mm", 3_000, 1_000), change("aten::add", 100, 300))))

    with Browser(width=400) as browser:
        browser.open(path)
        first = []
        for column in (1, 3):  # by change, by B's time, each the most first
            browser.value(f"document.querySelectorAll('#ops thead button')[{column}].click()")
            first.append(browser.value("document.querySelector('#ops tbody th').textContent").strip())

        assert first == ["aten::add", "aten::mm"]
        assert browser.value("document.documentElement.scrollWidth") == 400
        assert browser.console == []
        assert browser.requests == [path.as_uri()]
