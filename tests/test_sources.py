"""The traces of one job, wherever they lie: read side by side, told apart by rank, on one clock."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from threading import Thread

import pytest

from profiler_doctor.analyzer import sources, unpacking
from profiler_doctor.analyzer.errors import UnreadableTrace, UserError
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.sources import Job, traces
from tests.conftest import ROOT
from tests.trace_builder import TraceBuilder

RANKS = list(range(8))


@pytest.fixture
def dlrm(shared: Path) -> Path:
    return shared / "traces" / "param_dlrm_8ranks"


def _ranks(job: Job) -> list[tuple[int | None, str]]:
    return [(trace.rank, trace.source.replace("\\", "/").rsplit("/", 1)[-1].rsplit("!", 1)[-1]) for trace in job.traces]


def _codes(job: Job) -> list[str]:
    return [note.code for note in job.health]


def _small(folder: Path, name: str, start_ns: int = 1_700_000_000_000_000_000, **top: object) -> Path:
    """A trace of one op of 500 ns, wall-clock times unless `top` has a base."""
    builder = TraceBuilder(top=dict(top))
    builder.op("aten::mm", start_ns, 500)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return builder.write(path.parent, path.name)


def test_eight_ranks_are_read_in_order_and_equal_their_files(dlrm: Path) -> None:
    job = traces([dlrm])
    assert _ranks(job) == [(rank, f"rank{rank}.json.gz") for rank in RANKS]
    assert job.health == ()
    for trace in job.traces:
        alone = read(trace.source)
        assert trace.events.start_ns.tolist() == alone.events.start_ns.tolist()
        assert trace.events.names == alone.events.names


def test_ranks_are_read_side_by_side_by_two_processes(dlrm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Watched(ProcessPoolExecutor):
        def __init__(self, processes: int, **more: object) -> None:
            asked.append(processes)
            super().__init__(processes, **more)

    monkeypatch.setattr(sources, "ProcessPoolExecutor", Watched)
    assert len(traces([dlrm]).traces) == 8
    assert asked == [2]


def test_without_processes_to_help_the_traces_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(ProcessPoolExecutor):
        def map(self, *_: object, **__: object) -> Iterator[object]:
            raise BrokenProcessPool("ended from outside")

    monkeypatch.setattr(sources, "ProcessPoolExecutor", Ended)
    job = traces([_small(tmp_path, f"rank{rank}.json") for rank in (0, 1)])
    assert [trace.rank for trace in job.traces] == [0, 1]


def test_files_without_distributed_info_are_named_by_their_names(dlrm: Path, tmp_path: Path) -> None:
    for path in sorted(dlrm.iterdir(), reverse=True):
        document = json.loads(gzip.decompress(path.read_bytes()))
        del document["distributedInfo"]
        (tmp_path / f"job_{path.name}").write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    job = traces([tmp_path])
    assert _ranks(job) == [(rank, f"job_rank{rank}.json.gz") for rank in RANKS]
    assert job.health == ()


def test_files_whose_names_say_nothing_are_counted_by_order_and_that_is_said(tmp_path: Path) -> None:
    paths = [_small(tmp_path, name) for name in ("first.json", "second.json", "tenth.json")]
    job = traces(paths)
    assert _ranks(job) == [(0, "first.json"), (1, "second.json"), (2, "tenth.json")]
    assert _codes(job) == ["RANK-GUESSED"]
    assert "first.json as rank 0" in job.health[0].message


def test_a_rank_may_stand_in_a_folders_name(tmp_path: Path) -> None:
    for rank in (2, 10, 0):
        _small(tmp_path, f"rank_{rank}/trace.json")
    assert [trace.rank for trace in traces([tmp_path]).traces] == [0, 2, 10]


def test_two_files_of_one_rank_are_both_kept_and_the_second_is_doubted(tmp_path: Path) -> None:
    info = {"distributedInfo": {"rank": 0, "world_size": 2}}
    job = traces([_small(tmp_path, "a.json", **info), _small(tmp_path, "b.json", **info)])
    assert _ranks(job) == [(0, "a.json"), (1, "b.json")]
    assert _codes(job) == ["RANK-GUESSED"]


def test_ranks_with_different_bases_are_put_on_one_clock(tmp_path: Path) -> None:
    quarter, later = 1_727_740_800_000_000_000, 1_735_689_600_000_000_000
    before = _small(tmp_path, "rank0.json", later - quarter - 40, baseTimeNanoseconds=quarter)
    after = _small(tmp_path, "rank1.json", 60, baseTimeNanoseconds=later)
    absolute = _small(tmp_path, "rank2.json", later + 100_000)
    job = traces([before, after, absolute])
    assert {trace.base_ns for trace in job.traces} == {0}
    assert [int(trace.events.start_ns[0]) - later for trace in job.traces] == [-40, 60, 100_000]
    assert job.health == ()


def test_a_trace_without_a_wall_clock_stays_apart_and_that_is_said(tmp_path: Path) -> None:
    job = traces([_small(tmp_path, "rank0.json", 5000), _small(tmp_path, "rank1.json")])
    assert int(job.traces[0].events.start_ns[0]) == 5000
    assert _codes(job) == ["CLOCKS-APART"]


def test_one_trace_alone_stays_as_it_is(tmp_path: Path) -> None:
    path = _small(tmp_path, "trace.json", 5000)
    (trace,) = traces([path]).traces
    assert (trace.source, trace.rank, trace.events.start_ns.tolist()) == (str(path), None, [5000])


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_an_archive_of_ranks_is_a_job(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "job"
    for rank in (0, 1, 10):
        _small(folder, f"rank{rank}.json")
    (folder / "notes.txt").write_text("not a trace")
    made = shutil.make_archive(str(tmp_path / "ranks"), {"tar.gz": "gztar"}.get(kind, kind), folder)
    job = traces([made])
    assert _ranks(job) == [(0, "rank0.json"), (1, "rank1.json"), (10, "rank10.json")]
    assert job.traces[0].source.startswith(f"{made}!")
    assert _codes(job) == ["FILES-LEFT-OUT"]


def test_standard_input_may_be_a_trace_or_an_archive(tmp_path: Path) -> None:
    path = _small(tmp_path, "rank3.json")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(path, "rank3.json")
    assert [trace.source for trace in traces(["-"], io.BytesIO(path.read_bytes())).traces] == ["standard input"]
    job = traces(["-"], io.BytesIO(packed.getvalue()))
    assert [(trace.rank, trace.source) for trace in job.traces] == [(3, "standard input!rank3.json")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_that_is_named_is_read_like_standard_input(tmp_path: Path) -> None:
    content = _small(tmp_path, "trace.json").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()

    [trace] = traces([tmp_path / "pipe"]).traces

    writer.join()
    assert trace.source == str(tmp_path / "pipe")
    assert len(trace.events) == 1


def test_addresses_are_fetched_one_or_a_whole_folder(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for rank in (0, 1):
        memory.pipe(f"/job/rank{rank}.json", _small(tmp_path, f"rank{rank}.json").read_bytes())
    assert [trace.rank for trace in traces(["memory://job/rank1.json"]).traces] == [1]
    assert [trace.rank for trace in traces(["memory://job"]).traces] == [0, 1]
    assert [trace.rank for trace in traces(["memory://job/*0.json"]).traces] == [0]


def test_an_address_that_cannot_be_fetched_is_told_without_its_secrets() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(UnreadableTrace) as told:
        traces(["memory://me:password@nowhere/none.json?signature=secret"])
    assert "cannot be fetched" in str(told.value)
    assert str(told.value).startswith("memory://nowhere/none.json cannot")


def test_an_address_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UserError, match=r"profiler-doctor\[remote\]"):
        traces(["s3://bucket/trace.json"])


def test_a_recording_that_jax_wrote_twice_is_read_once(tmp_path: Path) -> None:
    data = ROOT / "tests" / "data"
    shutil.copy(data / "jax_cpu.xplane.pb", tmp_path / "host.xplane.pb")
    shutil.copy(data / "jax_cpu_perfetto_trace.json.gz", tmp_path / "perfetto_trace.json.gz")
    job = traces([tmp_path])
    assert [trace.format for trace in job.traces] == ["xplane"]
    assert _codes(job) == ["FILES-TWICE"]


def test_one_broken_rank_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    paths = [_small(tmp_path, "rank0.json"), tmp_path / "rank1.json"]
    paths[1].write_text("not a trace")
    job = traces(paths)
    assert [trace.rank for trace in job.traces] == [0]
    assert _codes(job) == ["FILE-UNREADABLE"]
    assert "rank1.json is not a trace" in job.health[0].message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.json", None, "is not there"),
        ("broken.zip", b"PK\x03\x04" + bytes(50), "broken.zip cannot be read"),
        ("readme.txt", b"hello", "readme.txt is not a trace"),
        (
            "diagnosis.json",
            b'{"subject": "a.py", "command": []}',
            "no trace but a finished diagnosis: `report` shows it",
        ),
        ("check.json", b'{"schema_version": 1, "verdict": {}}', "no trace but the answer of a check"),
        ("baseline.json", b'{"schema_version": 1, "workloads": {}}', "no trace but the baseline of a check"),
    ],
)
def test_an_input_that_is_no_trace_is_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableTrace, match=said):
        traces([tmp_path / name])


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(UnreadableTrace, match="there is no trace in it"):
        traces([tmp_path])


def test_an_archive_that_is_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "BOMB_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.json", bytes(2_000_000))
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("rank0.json")
        member.size = 2_000_000
        packed.addfile(member, io.BytesIO(bytes(2_000_000)))
    for name in ("bomb.zip", "bomb.tar.gz"):
        with pytest.raises(UnreadableTrace, match="200 times its size"):
            traces([tmp_path / name])


def test_a_member_cannot_be_written_outside_our_folder(tmp_path: Path) -> None:
    path = _small(tmp_path, "inner.json")
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../../outside/rank5.json", path.read_bytes())
    job = traces([tmp_path / "evil.zip"])
    assert [trace.rank for trace in job.traces] == [5]
    assert not (tmp_path.parent / "outside").exists()
