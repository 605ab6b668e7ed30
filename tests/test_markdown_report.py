"""The Markdown report: fits into a comment, and a name in it stays a name."""

from __future__ import annotations

from dataclasses import replace

from profiler_doctor.analyzer.model import Finding, Stake, Where
from profiler_doctor.reports.markdown import LIMIT, render
from tests import documents


def markdown(document: documents.Diagnosis) -> str:
    return render(document, None).decode("utf-8")


def test_it_never_grows_beyond_what_a_comment_takes() -> None:
    name = "🩺" * 5_000
    findings = [
        documents.found(
            f"T{n}", name, Finding(message=name, stake=Stake(share=0.5), where=Where(file=name, module=name))
        )
        for n in range(200)
    ]

    page = markdown(replace(documents.hostile(name), outcomes=tuple(findings)))

    assert len(page.encode()) <= LIMIT
    assert page.endswith("the full report has the rest._\n")


def test_names_are_neither_markup_nor_mentions() -> None:
    page = markdown(documents.hostile("a|b *c* _d_ [e](http://f) <img> @someone #12 `g` ~~h~~ $i$"))

    outside = "\n".join(line for line in page.splitlines() if "`" not in line.replace("\\`", ""))
    assert "<img>" not in outside
    assert "@someone" not in outside
    assert "\\[e\\](http" in outside
    assert "\\|b \\*c\\* \\_d\\_" in outside


def test_ticks_in_a_snippet_do_not_end_its_block() -> None:
    given = documents.resnet()
    trial = replace(given.trials[0], snippet="a\n```\nb")

    page = markdown(replace(given, trials=(trial,)))

    assert "   ````python\n   a\n   ```\n   b\n   ````\n" in page
