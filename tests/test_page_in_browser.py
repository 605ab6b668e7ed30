"""The page in a real browser: no complaint, no request, charts drawn, tables sorted, names shown as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler_doctor.reports.page import render
from tests import documents
from tests.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
    pytest.mark.xdist_group("browser"),
]
DRAWN = "document.querySelectorAll('.live:not([hidden]) .main-svg').length >= {}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(autouse=True)
def fresh(browser: Browser) -> None:
    browser.console.clear()
    browser.requests.clear()


def page(folder: Path, document: documents.Diagnosis) -> Path:
    path = folder / "report.html"
    path.write_bytes(render(document, None))
    return path


@pytest.mark.parametrize("name", [None, *documents.NASTY[:3]], ids=lambda name: str(name)[:12])
def test_it_draws_without_a_complaint_and_asks_for_nothing(browser: Browser, tmp_path: Path, name: str | None) -> None:
    path = page(tmp_path, documents.resnet() if name is None else documents.hostile(name))

    browser.open(path)
    browser.wait_for(DRAWN.format(3))

    assert browser.console == []
    assert browser.requests == [path.as_uri()]


def test_a_name_in_a_chart_shows_as_text(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.hostile("<b>x</b> %{y} &amp;")))
    browser.wait_for(DRAWN.format(2))

    browser.value("Plotly.Fx.hover(document.querySelector('[data-figure=steps]'), [{curveNumber: 0, pointNumber: 0}])")

    shown = browser.value("document.querySelector('[data-figure=steps] .hoverlayer').textContent")
    assert "<b>x</b> %\u200b{y} &amp;: 5 ns" in shown


def test_nothing_that_a_name_brings_along_can_run(browser: Browser, tmp_path: Path) -> None:
    path = page(tmp_path, documents.resnet())
    text = path.read_text(encoding="utf-8").replace("</main>", "<script>window.ran = 1</script></main>")
    path.write_text(text, encoding="utf-8")

    browser.open(path)

    assert browser.value("window.ran === undefined")


def test_a_heading_sorts_its_table_by_value_and_not_by_letter(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.resnet()))
    first = "document.querySelector('#tables tbody th').textContent"
    heading = "document.querySelectorAll('#tables thead button')[2]"

    browser.value(f"{heading}.click()")
    largest = browser.value(first)
    browser.value(f"{heading}.click()")

    assert (largest, browser.value(first)) == ("aten::mkldnn_convolution", "aten::clamp_min_")
    assert browser.value(f"{heading}.parentElement.getAttribute('aria-sort')") == "ascending"


def test_a_snippet_is_copied_or_at_least_selected(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.resnet()))

    browser.value("document.querySelector('.card .copy').click()")
    browser.wait_for("document.querySelector('.card .copy').textContent !== 'Copy'", 5)

    assert browser.value("document.querySelector('.card .copy').textContent") in ("Copied", "Selected")


def test_the_theme_goes_from_the_systems_to_light_to_dark(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.resnet()))
    browser.value("localStorage.clear()")
    browser.open(page(tmp_path, documents.resnet()))
    background = "getComputedStyle(document.body).backgroundColor"
    seen = []

    for _ in range(3):
        seen.append((browser.value("document.querySelector('.theme').textContent"), browser.value(background)))
        browser.value("document.querySelector('.theme').click()")

    assert [theme for theme, _ in seen] == ["Theme: auto", "Theme: light", "Theme: dark"]
    assert seen[1][1] == "rgb(252, 251, 249)"
    assert seen[2][1] == "rgb(22, 23, 26)"


def test_a_card_leads_to_its_place_in_the_timeline(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.resnet()))
    browser.wait_for(DRAWN.format(3))
    figure = "document.querySelector('[data-figure=timeline]')"

    browser.value("document.querySelector('a[data-from]').click()")

    browser.wait_for(f"JSON.stringify({figure}._fullLayout.xaxis.range) === '[-5,10]'", 5)  # 0 to 5 ms, and around it
    assert browser.value("location.hash") == "#timeline"
    assert browser.value(f"[{figure}._fullLayout.shapes[0].x0, {figure}._fullLayout.shapes[0].x1].join()") == "0,5"
    browser.wait_for(f"document.activeElement === {figure}", 5)


def test_without_scripts_the_verdict_and_the_charts_are_there(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.resnet()), scripts=False)

    tree = str(browser.page("DOM.getDocument", depth=-1))
    assert "channels-last makes a step 1.31 times as fast" in tree
    assert "'nodeName': 'rect'" in tree
    assert "'nodeName': 'BUTTON'" not in tree  # nothing that would do nothing


@pytest.mark.parametrize("document", [documents.resnet(), documents.hostile("x" * 10_000)], ids=["run", "hostile"])
def test_nothing_sticks_out_on_a_telephone(tmp_path: Path, document: documents.Diagnosis) -> None:
    with Browser(width=400) as narrow:
        narrow.open(page(tmp_path, document))

        assert narrow.value("document.documentElement.scrollWidth") == 400


def test_the_timeline_zooms_and_moves_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, documents.resnet()))
    browser.wait_for(DRAWN.format(3))
    figure = "document.querySelector('[data-figure=timeline]')"
    span = f"JSON.stringify({figure}._fullLayout.xaxis.range)"

    def pressed(key: str) -> object:
        browser.value(f"{figure}.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")
        return browser.value(span)

    assert browser.value(f"{figure}.tabIndex") == 0
    assert browser.value(span) == "[0,58]"
    assert pressed("+") == "[14.5,43.5]"
    assert pressed("ArrowRight") == "[21.75,50.75]"
    assert pressed("0") == "[0,58]"
    assert browser.value(f"{figure}.querySelectorAll('.bars .point').length") == 3
    assert "main thread" in browser.value(f"{figure}.textContent")
