"""What must hold for every format: it knows its own files and no other's, and its traces are good for every measure."""

from __future__ import annotations

import gzip
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.formats._bytes import first_bytes
from profiler_doctor.analyzer.kinds import Format, Has
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.totals import tables, totals
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import FORMATS, read
from profiler_doctor.analyzer.trace import GPU_WORK, Trace
from tests.built_profiles import BUILT
from tests.conftest import ROOT, SHARED

DATA = ROOT / "tests" / "data"
OTHERS = {"ort_olive_profile.json.gz": "ort", "nsys_lighttransport.sqlite": "nsys",
          "tracelens_mi300_jax_conv.xplane.pb": "xplane", "jax_cpu.xplane.pb": "xplane",
          "jax_cpu_perfetto_trace.json.gz": "jax_json"}  # fmt: skip
"""Real files that are not PyTorch's; all others are."""
REAL = [
    path
    for folder in (SHARED / "traces", DATA)
    for path in sorted(folder.rglob("*"))
    if path.suffix in (".gz", ".pb", ".sqlite")
]
NOT_TRACES = {
    "a diagnosis": b'{"schema_version": 1, "subject": "model.py"}',
    "a list of numbers": b"[1, 2, 3]",
    "a page": b"<!doctype html><title>404</title>",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "another database": b"SQLite format 3\x00" + bytes(1024),
    "a program": b"\x7fELF\x02\x01\x01" + bytes(64),
    "another protocol buffer": b"\x0a\x05\x12\x03abc\x12\x01x",
    "spaces": b" \n\n ",
}

of_each_real_file = pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
of_each_built_file = pytest.mark.parametrize("what", BUILT)


def _formats_that_know(path: Path) -> list[str]:
    head = first_bytes(path)
    return [known.name for known in find(FORMATS, Format).items if known.knows(head, path)]


@of_each_real_file
def test_one_format_alone_knows_a_real_file(path: Path) -> None:
    assert _formats_that_know(path) == [OTHERS.get(path.name, "kineto")]


@of_each_built_file
def test_one_format_alone_knows_a_built_file(what: str, tmp_path: Path) -> None:
    name, build = BUILT[what]
    assert _formats_that_know(build(tmp_path)) == [name]


@pytest.mark.parametrize("what", NOT_TRACES)
def test_no_format_knows_what_is_no_trace(what: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(NOT_TRACES[what])
    assert _formats_that_know(path) == []
    with pytest.raises(UserError, match="trace"):
        read(path)


def test_every_format_has_a_sample_and_is_named_after_its_file() -> None:
    found = find(FORMATS, Format)
    folder = ROOT / "profiler_doctor" / "analyzer" / "formats"
    assert found.broken == ()
    assert {format_.name for format_ in found.items} == {name for name, _ in BUILT.values()}
    assert {format_.name for format_ in found.items} == {path.stem for path in folder.glob("[a-z]*.py")}


@cache
def _real(path: Path) -> Trace:
    return read(path)


@of_each_real_file
def test_a_real_trace_is_good_for_every_measure(path: Path) -> None:
    _assert_good(_real(path), path, OTHERS.get(path.name, "kineto"))


@of_each_built_file
def test_a_built_trace_is_good_for_every_measure(what: str, tmp_path: Path) -> None:
    name, build = BUILT[what]
    path = build(tmp_path)
    _assert_good(read(path), path, name)


def _assert_good(trace: Trace, path: Path, name: str) -> None:
    events = trace.events
    assert (trace.format, trace.source) == (name, str(path))
    assert len(events) > 0
    assert events.start_ns.dtype == events.dur_ns.dtype == np.int64
    for codes, table in (
        (events.category, events.categories),
        (events.name, events.names),
        (events.thread, events.threads),
    ):
        assert set(np.unique(codes)) <= set(range(len(table)))
    for column in events.arguments.values():
        assert len(column.rows) == len(column.values)
        assert np.all(np.diff(column.rows) > 0)
        assert column.table is None or set(np.unique(column.values)) <= set(range(len(column.table)))
    assert totals(trace).events == len(events)
    assert len(ops(trace)) == len(trace.rows("cpu_op", "user_annotation"))
    assert len(host_calls(trace)) >= 0
    tables(trace, 5)


@of_each_real_file
def test_a_trace_without_gpu_work_never_claims_an_idle_gpu(path: Path) -> None:
    trace = _real(path)
    if not len(trace.rows(*GPU_WORK)):
        whole = totals(trace)
        assert (whole.devices, whole.span_ns, whole.idle_ns) == ({}, 0, 0)
        said = any(note.code == "GPU-NOT-RECORDED" for note in trace.health)
        assert said or Has.CPU_ONLY in trace.has or trace.rows("mtia_ccp_events").size


@of_each_built_file
def test_damage_is_told_in_a_sentence_and_never_a_crash(what: str, tmp_path: Path) -> None:
    rng = random.Random(what)
    packed = BUILT[what][1](tmp_path).read_bytes()
    content = gzip.decompress(packed) if packed.startswith(b"\x1f\x8b") else packed
    path = tmp_path / "damaged"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(60):
        path.write_bytes(_damaged(content, rng))
        try:
            totals(read(path))
            outcomes["read"] += 1
        except UserError as error:
            assert str(error).endswith((".", "[."))
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0


def _damaged(content: bytes, rng: random.Random) -> bytes:
    found, at = bytearray(content), rng.randrange(len(content))
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(found[:at])
    if kind == 1:
        del found[at : at + rng.randrange(1, 200)]
    if kind == 2:
        for _ in range(rng.randrange(1, 12)):
            found[rng.randrange(len(found))] = rng.randrange(256)
    if kind == 3:
        found[at : at + 8] = rng.choice([b"\xff" * 8, b"9" * 8, b"\0" * 8, b'}]}]}]"",', b'"' * 8, b"-1e99999"])
    return bytes(found)


def test_every_format_stands_in_the_docs_with_what_was_never_seen() -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    for format_ in find(FORMATS, Format).items:
        assert f"| `{format_.name}` |" in page
    assert "never seen real" in page
