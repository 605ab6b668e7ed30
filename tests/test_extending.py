"""A rule, a fix and a report are each one new file: dropped into a folder, they are there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profiler_doctor.analyzer.kinds import Fix, Report, Rule, Table
from profiler_doctor.analyzer.plugins import find

RULE = '''
"""Something is seen."""
from profiler_doctor.analyzer.kinds import Rule, Sighting
RULE = Rule(code="XMP001", name="example", doc=__doc__, find=lambda trace, limits: [Sighting(message="seen")])
'''
FIX = '''
"""Nothing is changed."""
from profiler_doctor.analyzer.kinds import Fix
FIX = Fix(name="example", doc=__doc__, cures=("XMP001",), snippet="pass", changes_numbers="", rank=0)
'''
TABLE = '''
"""How many events there are."""
import pandas as pd
from profiler_doctor.analyzer.kinds import Table
TABLE = Table(name="example", of=lambda trace: pd.DataFrame({"events": [len(trace.events)]}))
'''
REPORT = '''
"""The verdict alone."""
from profiler_doctor.analyzer.kinds import Report
REPORT = Report(name="line", filename=None, render=lambda diagnosis, trace: diagnosis.verdict.sentence.encode())
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "dropped_in"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.startswith("dropped_in")]:
        del sys.modules[name]


@pytest.mark.parametrize(("kind", "text"), [(Rule, RULE), (Fix, FIX), (Report, REPORT), (Table, TABLE)])
def test_one_new_file_is_all_it_takes(folder: Path, kind: type, text: str) -> None:
    (folder / "example.py").write_text(text, encoding="utf-8")

    found = find("dropped_in", kind)

    assert len(found.items) == 1
    assert found.broken == ()


def test_a_file_that_does_not_load_is_named_and_the_others_are_found(folder: Path) -> None:
    (folder / "bad.py").write_text("import no_such_module_anywhere", encoding="utf-8")
    (folder / "good.py").write_text(RULE, encoding="utf-8")

    found = find("dropped_in", Rule)

    assert [rule.code for rule in found.items] == ["XMP001"]
    assert [broken.module for broken in found.broken] == ["dropped_in.bad"]
    assert "no_such_module_anywhere" in found.broken[0].error


def test_a_value_that_two_files_share_counts_once(folder: Path) -> None:
    (folder / "first.py").write_text(RULE, encoding="utf-8")
    (folder / "second.py").write_text("from dropped_in.first import RULE", encoding="utf-8")

    assert len(find("dropped_in", Rule).items) == 1
