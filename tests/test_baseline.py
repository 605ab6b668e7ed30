"""The committed baseline: what it is written as, and a sentence with the right exit code for what cannot be used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer import baseline, stored_time
from profiler_doctor.analyzer.baseline import BrokenBaseline, Entry, NoBaseline, StoredTime
from profiler_doctor.analyzer.counters import Counters

HERE = {"torch": "2.6", "device": "cpu", "cpu": "Zen 4", "threads": 1}


def entry(**changes: object) -> Entry:
    counters = Counters(
        exact={"ops": 12, "casts": 0}, information={"syncs": (1, 2)}, ops={"b": 2}, varying=frozenset("a")
    )
    return replace(Entry.of(counters, ("train.py",), HERE), **changes)  # type: ignore[arg-type]


def test_what_is_stored_comes_back_as_it_was(tmp_path: Path) -> None:
    path = baseline.save(tmp_path / "baseline.json", {"train": entry()})

    found = baseline.entry(baseline.load(path), "train", path).as_counters()

    assert found.exact == {"ops": 12, "casts": 0}
    assert (set(found.information), found.ops, found.varying) == ({"syncs"}, {"b": 2}, frozenset("a"))


def test_the_file_is_sorted_and_has_a_line_for_each_number(tmp_path: Path) -> None:
    text = baseline.save(tmp_path / "baseline.json", {"b": entry(), "a": entry()}).read_text("utf-8")

    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
    assert '    "ops": 12' in text.splitlines()


def test_updating_one_workload_leaves_the_others(tmp_path: Path) -> None:
    path = baseline.save(tmp_path / "baseline.json", {"a": entry()})
    baseline.save(path, {"b": entry(command=("b.py",))})

    assert sorted(baseline.load(path).workloads) == ["a", "b"]


def test_whoever_writes_over_a_file_that_cannot_be_read_is_told_what_is_lost(tmp_path: Path) -> None:
    good, broken = baseline.save(tmp_path / "good.json", {"a": entry()}), tmp_path / "broken.json"
    broken.write_text("{ half", encoding="utf-8")

    assert baseline.lost(broken) == "The old file could not be read, so nothing of it was kept."
    assert [baseline.lost(path) for path in (good, tmp_path / "missing.json")] == ["", ""]


def test_git_sees_it_in_the_folder_that_it_otherwise_ignores(tmp_path: Path) -> None:
    folder = tmp_path / ".profiler-doctor"
    folder.mkdir()
    (folder / ".gitignore").write_text("*\n")

    baseline.save(folder / "baseline.json", {"a": entry()})

    assert (folder / ".gitignore").read_text() == "*\n!baseline.json\n"


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        ("{ half", BrokenBaseline, "is not JSON"),
        ("", BrokenBaseline, "it is empty"),
        ("{\n<<<<<<< HEAD\n}", BrokenBaseline, "git left a conflict in it"),
        ("[]", BrokenBaseline, "no schema_version"),
        ('{"traceEvents": []}', BrokenBaseline, "no schema_version"),
        ('{"schema_version": 1, "workloads": {"a": {"command": 5}}}', BrokenBaseline, "a field that does not fit"),
        ('{"schema_version": 0, "workloads": {}}', NoBaseline, "an older profiler-doctor"),
        ('{"schema_version": 9, "workloads": {}}', NoBaseline, "a newer profiler-doctor.*update profiler-doctor here"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(
    tmp_path: Path, content: str, kind: type[Exception], words: str
) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(kind, match=words) as told:
        baseline.load(path)

    assert str(path) in str(told.value)
    assert told.value.exit_code == (2 if kind is BrokenBaseline else 3)  # type: ignore[attr-defined]
    assert path.read_text(encoding="utf-8") == content


def test_a_missing_file_and_a_missing_workload_cannot_be_compared_with(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    with pytest.raises(NoBaseline, match="There is no baseline"):
        baseline.load(path)

    baseline.save(path, {"a": entry()})
    with pytest.raises(NoBaseline, match="nothing about the workload 'b'"):
        baseline.entry(baseline.load(path), "b", path)


def test_another_processor_forbids_comparing_times_and_another_torch_forbids_counters_too() -> None:
    other_cpu, other_torch = {**HERE, "cpu": "Xeon"}, {**HERE, "torch": "2.7"}

    assert baseline.differing(entry(), HERE, time=True) == ()
    assert baseline.differing(entry(), other_cpu, time=False) == ()
    assert baseline.differing(entry(), other_cpu, time=True) == ("cpu was Zen 4 and is Xeon",)
    assert baseline.differing(entry(), other_torch, time=False) == ("torch was 2.6 and is 2.7",)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ((100, 104, 103), "pass"),
        ((111, 113, 112), "inconclusive"),
        ((131, 133, 150), "regression"),
        ((124, 150, 150), "inconclusive"),
        ((90, 150, 150), "pass"),
        ((50, 51, 52), "pass"),
    ],
)
def test_stored_times_call_only_a_large_loss_that_every_process_shows_a_regression(
    after: tuple[int, ...], verdict: str
) -> None:
    milliseconds = [number * 1_000_000 for number in (100, 101, 99)]

    found = stored_time.judged(sorted(milliseconds), sorted(number * 1_000_000 for number in after), 0.05, "cpu")

    assert found.verdict == verdict


def test_stored_times_are_not_compared_on_another_machine_or_a_busy_one() -> None:
    stored = entry(time=StoredTime(step_ns=(5,), cpu_ns=(5,), machine_ns=1000))

    elsewhere = stored_time.hindrance(stored, {**HERE, "cpu": "Xeon"}, 1000)
    assert elsewhere.startswith("the cpu was Zen 4 and is Xeon; --base REV")
    assert "takes 1.20 times as long" in stored_time.hindrance(stored, HERE, 1200)
    assert stored_time.hindrance(stored, HERE, 1050) == ""
    assert stored_time.hindrance(entry(), HERE, 1000) == "the baseline holds no times"
