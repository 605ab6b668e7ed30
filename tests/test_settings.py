"""The project's own settings in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.settings import BadSettings, settings


def test_settings_come_from_the_nearest_pyproject_with_our_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.profiler-doctor]\nignore = ["SYN001"]\n[tool.profiler-doctor.rules.LCH001]\nidle_share = 0.2\n'
    )
    inner = tmp_path / "models" / "small"
    inner.mkdir(parents=True)
    (tmp_path / "models" / "pyproject.toml").write_text('[project]\nname = "other"\n')

    found = settings(inner)

    assert found.ignore == ("SYN001",)
    assert found.limits == {"LCH001": {"idle_share": 0.2}}


def test_no_settings_are_fine(tmp_path: Path) -> None:
    assert settings(tmp_path).select == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.profiler-doctor\n", "is not valid TOML"),
        ('[tool.profiler-doctor]\nselect = "SYN"\n', "select must be a list"),
        ("x = '\udcff'\n", "is not valid TOML: 'utf-8' codec"),
        ("[tool]\nprofiler-doctor = 5\n", "must be a table"),
        ("[tool.profiler-doctor.rules]\nSYN001 = 1\n", "rules.SYN001. must be a table of thresholds"),
        ('[tool.profiler-doctor.rules.SYN001]\nx = "much"\n', "rules.SYN001.x must be a number, not 'much'"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(BadSettings, match=says) as raised:
        settings(tmp_path)

    assert str(tmp_path / "pyproject.toml") in str(raised.value)


@pytest.mark.parametrize(
    ("key", "meant"), [("ignored", "Is it ignore?"), ("colour", "There are select, ignore, rules")]
)
def test_a_key_that_is_not_known_is_named_with_the_nearest_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, meant: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.profiler-doctor]\n{key} = ["SYN001"]\nselect = ["SYN"]\ncheck = {{}}\n'
    )

    found = settings(tmp_path)

    said = capsys.readouterr().err
    assert found.select == ("SYN",)
    assert said.count("\n") == 1
    assert (
        f"{tmp_path / 'pyproject.toml'}: tool.profiler-doctor.{key} is not known and changes nothing. {meant}" in said
    )
