"""The pages in docs/ that are made from the code: complete, linked, and up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiler_doctor.analyzer.kinds import Fix, Has, Rule, Threshold
from profiler_doctor.verbs.catalogue import main, pages, rules_page
from profiler_doctor.verbs.entries import anchor, fix_entry, rule_entry
from tests.conftest import ROOT

DOC = """Something is slow.

What it finds
    A thing, in
    two lines.

    - and a list

Why it costs
    Because.
"""


def a_rule(**more: object) -> Rule:
    return Rule(code="XMP001", name="some-thing", doc=DOC, find=lambda *_: [], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_page_in_docs_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_bytes() == pages()[name], "make docs"


def test_headings_of_a_rule_become_headings_with_their_text() -> None:
    text = rule_entry(a_rule(), (), level=2)

    assert text.startswith(
        "## XMP001 some-thing\n\nSomething is slow.\n\n### What it finds\n\nA thing, in\ntwo lines.\n"
    )
    assert "\n\n- and a list\n\n### Why it costs\n\nBecause.\n" in text


def test_thresholds_needs_and_cures_stand_in_a_rules_entry() -> None:
    rule = a_rule(needs=(Has.KERNELS,), thresholds={"share": Threshold(0.1, "of the step", "as much as noise")})
    cure = Fix(
        name="cure", doc="Cure it.", cures=("XMP001",), snippet="x = 1", changes_numbers="", rank=0, environment=dict
    )
    text = rule_entry(rule, (cure,))

    assert "GPU kernels. Without, the rule is skipped and says so." in text
    assert "- `share` = 0.1 of the step: as much as noise" in text
    assert text.endswith("## Fixes that are tried\n\ncure\n")


def test_a_fix_is_told_with_what_it_changes_and_its_snippet() -> None:
    fix = Fix(
        name="cure", doc="Cure it.\n\nWhat it does: it cures.\n", cures=("XMP001",), snippet="x = 1\n",
        changes_numbers="by rounding", rank=9, environment=dict,
    )  # fmt: skip
    text = fix_entry(fix)

    assert "# cure\n\nCure it.\n\n**What it does:** it cures.\n" in text
    assert "- Changes numbers: by rounding.\n" in text
    assert "- Compiles" in text
    assert text.endswith("```python\nx = 1\n```\n")


def test_every_link_of_the_rules_page_has_its_heading() -> None:
    page = pages()["rules.md"].decode()
    headings = {anchor(line.lstrip("# ")) for line in page.splitlines() if line.startswith("#")}

    links = re.findall(r"\]\(#([^)]+)\)", page)

    assert len(links) > 20
    assert set(links) <= headings


def test_a_new_rule_makes_the_page_stale_and_make_docs_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0

    (tmp_path / "rules.md").write_text(rules_page([a_rule()], ()), encoding="utf-8")

    assert main(["--check", str(tmp_path)]) == 1
    assert "rules.md" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "rules.md").read_bytes() == pages()["rules.md"]
