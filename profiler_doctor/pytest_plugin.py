"""For pytest: the fixture `profiler_doctor`, with which a test says that a script must not have become slower.

    def test_speed(profiler_doctor):
        profiler_doctor.check("train.py", "--small", max_ops=400, forbid=["SYN001"])

It runs the script as `profiler-doctor check` does, in processes of its own. A regression or a broken budget fails the
test; what cannot be compared skips it, or fails it under `--profiler-doctor-strict`. pytest loads this file in every
run, so it imports nothing of weight before the fixture is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

STRICT = "--profiler-doctor-strict"
UPDATE = "--profiler-doctor-update"
BASE = "--profiler-doctor-base"
REGRESSION, UNUSABLE, UNDECIDED = 1, 2, 3


@dataclass(frozen=True)
class Doctor:
    """What the fixture gives."""

    folder: Path
    """Scripts are run here, and the baseline lies here: pytest's root."""
    base: str | None = None
    """Revision to compare with; None: the baseline."""
    update: bool = False
    strict: bool = False

    def check(
        self, script: str, *arguments: str, name: str | None = None, time: str | None = None, **budgets: Any
    ) -> dict[str, Any]:
        """Check a script, and give the whole answer as `check --format json` has it.

        `name` tells several checks of one script apart. `time` is the share by which a step may take longer; without
        it only counters are compared. `budgets` are those of the settings: `max_ops=400`, `forbid=["SYN001"]`.
        """
        __tracebackhide__ = True
        said = self._asked(script, arguments, name, time)
        answer = subprocess.run(said, cwd=self.folder, capture_output=True, encoding="utf-8", check=False)
        if answer.returncode == UNUSABLE or not answer.stdout:
            pytest.fail(answer.stderr.strip() or f"profiler-doctor ended with {answer.returncode}", pytrace=False)
        found: dict[str, Any] = json.loads(answer.stdout)
        broken = [*_broken(found, budgets)]
        if answer.returncode == REGRESSION or broken:
            pytest.fail("\n".join([*broken, *_worse(found)]), pytrace=False)
        if answer.returncode == UNDECIDED:
            (pytest.fail if self.strict else pytest.skip)(found["verdict"]["sentence"])
        return found

    def _asked(self, script: str, arguments: Sequence[str], name: str | None, time: str | None) -> list[str]:
        options = ["--format", "json", "--quiet", "--workload", name or Path(script).stem]
        options += ["--no-time"] if time is None else ["--time", time]
        options += ["--update"] if self.update else ["--base", self.base] if self.base else []
        return [sys.executable, "-m", "profiler_doctor", "check", *options, script, "--", *arguments]


@pytest.fixture
def profiler_doctor(request: pytest.FixtureRequest) -> Doctor:
    """Checks scripts for performance; see `Doctor.check`."""
    option = request.config.getoption
    return Doctor(request.config.rootpath, option(BASE), bool(option(UPDATE)), bool(option(STRICT)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the fixture."""
    group = parser.getgroup("profiler-doctor")
    group.addoption(UPDATE, action="store_true", help="write the performance baseline anew instead of comparing")
    group.addoption(STRICT, action="store_true", help="fail what cannot be compared, instead of skipping it")
    group.addoption(BASE, metavar="REV", help="compare performance with this revision instead of the baseline")


def _worse(found: dict[str, Any]) -> list[str]:
    """What got worse, a line each, and where."""
    lines = [line for workload in found["workloads"] for line in workload["regressions"]]
    places = [place for workload in found["workloads"] for place in workload["places"]]
    return [
        *lines,
        *(f"{one['file']}:{one['line']}: {one['code']} ({one['before']} → {one['after']} ops)" for one in places),
    ]


def _broken(found: dict[str, Any], budgets: dict[str, Any]) -> list[str]:
    """The budgets of the test itself that do not hold; a name that is no counter is broken too."""
    values = {name: count for workload in found["workloads"] for name, count in workload["counters"].items()}
    broken = []
    for name, limit in budgets.items():
        if name == "forbid":
            broken += [f"{code} is found, which is forbidden" for code in limit if values.get(f"findings.{code}")]
            continue
        value = values.get(name.removeprefix("max_"))
        if not name.startswith("max_") or not isinstance(value, int):
            broken.append(f"{name} is no budget: there is no counter {name.removeprefix('max_')!r} that holds still")
        elif value > limit:
            broken.append(f"{name} = {limit} is broken: it is {value}")
    return broken
