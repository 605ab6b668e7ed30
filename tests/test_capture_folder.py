"""The run folder."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from profiler_doctor.analyzer.capture import folder
from profiler_doctor.analyzer.errors import CannotWrite

NOON = datetime(2026, 12, 1, 12, 0, 5)


def test_a_run_folder_is_named_after_time_and_script_and_never_used_twice(tmp_path: Path) -> None:
    first = folder.make("train model.py", tmp_path, NOON)
    second = folder.make("train model.py", tmp_path, NOON)
    assert first == tmp_path / ".profiler-doctor" / "20261201-120005-train_model"
    assert second.name == "20261201-120005-train_model-2"


def test_a_place_where_no_folder_can_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".profiler-doctor").write_bytes(b"")

    with pytest.raises(CannotWrite, match="which cannot be made: File exists"):
        folder.make("a.py", tmp_path, NOON)


def test_git_leaves_all_of_it_alone_but_a_baseline(tmp_path: Path) -> None:
    folder.make("a.py", tmp_path, NOON)
    ignored = (tmp_path / ".profiler-doctor" / ".gitignore").read_text().splitlines()
    assert ignored == ["*", "!baseline.json"]


def test_latest_points_to_the_newest(tmp_path: Path) -> None:
    first, second = (folder.make("a.py", tmp_path, NOON) for _ in range(2))
    folder.point_latest(first)
    folder.point_latest(second)
    link = tmp_path / ".profiler-doctor" / "latest"
    assert link.is_symlink()
    assert link.resolve() == second.resolve()
    assert not list(link.parent.glob("*.part"))


def test_a_failed_run_leaves_no_folder_and_one_with_a_trace_only_whole_files(tmp_path: Path) -> None:
    empty, filled = (folder.make("a.py", tmp_path, NOON) for _ in range(2))
    (filled / "trace.json.gz").write_bytes(b"whole")
    for place in (empty, filled):
        (place / "facts.json.77.part").write_text("half")
        with pytest.raises(KeyboardInterrupt), folder.kept_if_whole(place):
            raise KeyboardInterrupt
    assert not empty.exists()
    assert [file.name for file in filled.iterdir()] == ["trace.json.gz"]


def test_a_new_run_sweeps_up_after_one_that_was_killed_but_not_after_one_that_is_alive(tmp_path: Path) -> None:
    earlier = folder.make("a.py", tmp_path, NOON)
    (earlier / f"observe.{2**22 + 1}.part.json").write_text("half")  # beyond the largest number of a process
    (earlier / f"observe.{os.getpid()}.part.json").write_text("half")
    folder.make("b.py", tmp_path, NOON)
    assert [file.name for file in earlier.iterdir()] == [f"observe.{os.getpid()}.part.json"]
