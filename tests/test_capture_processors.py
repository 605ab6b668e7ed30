"""The CPUs that a process may really use."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.capture import processors


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_tightest_quota_of_all_groups_above_counts(tmp_path: Path) -> None:
    mine = _file(tmp_path / "cgroup", "0::/pod/app\n")
    _file(tmp_path / "fs/pod/app/cpu.max", "max 100000\n")
    _file(tmp_path / "fs/pod/cpu.max", "150000 100000\n")
    _file(tmp_path / "fs/cpu.max", "400000 100000\n")
    assert processors.quota(mine, tmp_path / "fs") == pytest.approx(1.5)


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    mine = _file(tmp_path / "cgroup", "4:memory:/docker\n3:cpu,cpuacct:/docker\n")
    _file(tmp_path / "fs/cpu,cpuacct/docker/cpu.cfs_quota_us", "200000\n")
    _file(tmp_path / "fs/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n")
    _file(tmp_path / "fs/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    _file(tmp_path / "fs/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert processors.quota(mine, tmp_path / "fs") == pytest.approx(2.0)


def test_no_limit_is_none(tmp_path: Path) -> None:
    mine = _file(tmp_path / "cgroup", "0::/\n")
    _file(tmp_path / "fs/cpu.max", "max 100000\n")
    assert processors.quota(mine, tmp_path / "fs") is None
    assert processors.quota(tmp_path / "absent", tmp_path / "fs") is None


@pytest.mark.parametrize(("allowed", "granted", "expected"), [(8, None, 8), (8, 2.0, 2), (8, 0.5, 1), (2, 16.0, 2)])
def test_usable_is_affinity_and_quota_together(
    monkeypatch: pytest.MonkeyPatch, allowed: int, granted: float | None, expected: int
) -> None:
    monkeypatch.setattr(processors, "affinity", lambda: tuple(range(allowed)))
    monkeypatch.setattr(processors, "quota", lambda: granted)
    assert processors.usable_cpus() == expected


def test_flags_and_model_are_the_first_processors(tmp_path: Path) -> None:
    text = (
        "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 amx_bf16\n\nprocessor\t: 1\nflags\t: x\n"
    )
    cpuinfo = _file(tmp_path / "cpuinfo", text)
    assert processors.cpu_flags(cpuinfo) == ("amx_bf16", "avx2", "fpu")
    assert processors.cpu_model(cpuinfo) == "Some CPU @ 2 GHz"
    assert processors.cpu_flags(tmp_path / "absent") == ()
