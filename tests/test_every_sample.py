"""What holds for every sample: it says on its first line what is to be found in it, and that is found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import find
from tests.conftest import ROOT

SAMPLES = sorted((ROOT / "samples").glob("*.py"))
CODES = {rule.code for rule in find("profiler_doctor.rules", Rule).items}
EXPECTS = re.compile(r"# expects: ([A-Z]{3}\d{3}|none)")
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)


def expected(sample: Path) -> str:
    said = EXPECTS.fullmatch(sample.read_text(encoding="utf-8").splitlines()[0])
    assert said, f"{sample.name} must begin with `# expects: CODE` or `# expects: none`"
    return said[1]


def test_there_are_ten_of_them_and_two_are_healthy() -> None:
    assert len(SAMPLES) == 10
    assert sorted(path.stem for path in SAMPLES if expected(path) == "none") == ["healthy", "item_each_step"]


@each_sample
def test_the_code_that_it_expects_exists(sample: Path) -> None:
    assert expected(sample) in CODES | {"none"}


@each_sample
def test_it_knows_nothing_of_us(sample: Path) -> None:
    assert "profiler" not in sample.read_text(encoding="utf-8")


@pytest.mark.slow
@each_sample
def test_what_ails_it_is_found(sample: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "profiler_doctor", "run", "--no-verify", "--format", "json", str(sample)]

    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = json.loads(run.stdout)["outcomes"]
    found = {outcome["code"] for outcome in outcomes if outcome["status"] == "found"}
    assert not [outcome["code"] for outcome in outcomes if outcome["status"] == "crashed"]
    assert found == set() if expected(sample) == "none" else expected(sample) in found
