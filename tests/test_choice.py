"""Which rules are asked and by which limits: the command line and the settings, by code, family and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.kinds import Rule, Threshold
from profiler_doctor.verbs.choice import UnknownRule, selection

RULES = (
    Rule(
        code="TST001", name="first", doc="One.", find=lambda *_: [],
        thresholds={"ops": Threshold(3, "ops", "for the test's sake")},
    ),
    Rule(code="TST002", name="second", doc="Two.", find=lambda *_: []),
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's pyproject.toml, from whose folder the program is called."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pyproject.toml"


@pytest.mark.parametrize("word", ["TST001", "TST", "first", "all"])
def test_every_kind_of_word_is_known_on_the_command_line_and_in_the_settings(project: Path, word: str) -> None:
    project.write_text(
        f'[tool.profiler-doctor]\nignore = ["{word}"]\n[tool.profiler-doctor.rules.{word}]\nops = 9\n',
        encoding="utf-8",
    )

    chosen = selection(RULES, (word,), ())

    assert chosen.asks(RULES[0])
    assert chosen.ignores(RULES[0])
    assert chosen.limits_of(RULES[0]) == {"ops": 9.0}


def test_the_command_lines_selection_replaces_the_projects_and_its_ignoring_adds_to_it(project: Path) -> None:
    project.write_text('[tool.profiler-doctor]\nselect = ["second"]\nignore = ["second"]\n', encoding="utf-8")

    chosen = selection(RULES, ("TST001,second",), ("first",))

    assert chosen.select == ("TST001", "second")
    assert chosen.ignore == ("first", "second")


@pytest.mark.parametrize("words", [("NOPE",), ("tst",)])
def test_a_word_that_means_no_rule_is_refused(project: Path, words: tuple[str, ...]) -> None:
    assert not project.exists()
    with pytest.raises(UnknownRule, match="no rule, family or name"):
        selection(RULES, (), words)


@pytest.mark.parametrize(("word", "has"), [("TST001", "It has ops"), ("second", "It has none")])
def test_a_threshold_that_no_such_rule_has_is_refused(project: Path, word: str, has: str) -> None:
    project.write_text(f"[tool.profiler-doctor.rules.{word}]\nopps = 9\n", encoding="utf-8")

    with pytest.raises(UnknownRule, match=rf"rules\.{word}: there is no threshold 'opps'\. {has}\."):
        selection(RULES, (), ())
