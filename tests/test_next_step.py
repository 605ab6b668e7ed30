"""The one command that a report ends with."""

from __future__ import annotations

from dataclasses import replace

from profiler_doctor.reports.story import next_step
from tests import documents


def test_after_verify_what_is_left_is_seen_by_a_run_without_the_fixes() -> None:
    words = ("verify", "--fix", "compile", "cnn.py", "--fix=channels-last", "--fix-file", "mine.py", "--budget", "45")
    given = replace(documents.resnet(), command=("profiler-doctor", *words))

    assert next_step(given).command == "profiler-doctor run cnn.py --budget 45"


def test_what_belongs_to_the_script_is_kept_even_if_it_is_called_as_ours() -> None:
    given = replace(documents.resnet(), command=("profiler-doctor", "verify", "--fix", "a", "x.py", "--", "--fix", "b"))

    assert next_step(given).command == "profiler-doctor run x.py -- --fix b"


def test_after_a_run_it_is_the_same_run() -> None:
    assert next_step(documents.resnet()).command == "profiler-doctor run samples/resnet50.py -- --batch 4"
