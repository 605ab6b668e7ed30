"""Files as profilers break them: what can be read is read, what is lost is counted, what is no trace is refused."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats import _text
from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.measures.totals import totals
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace

pytestmark = pytest.mark.usefixtures("reader")
OP = '{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": %s, "dur": 5, "args": {"External id": 3}}'


def around(events: str, after: str = "") -> str:
    """A document with these events."""
    return f'{{"schemaVersion": 1, "traceEvents": [{events}]{after}}}'


def written(text: str | bytes, folder: Path) -> Path:
    path = folder / "trace.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def trace_of(events: str, folder: Path) -> Trace:
    return read(written(around(events, ', "traceName": "t"'), folder))


def ops(*names: str) -> str:
    return ", ".join(OP % (name, 10 + place) for place, name in enumerate(names))


def health(trace: Trace) -> dict[str, int]:
    return {note.code: note.events for note in trace.health}


def names(trace: Trace) -> list[str]:
    return trace.events.names_at(range(len(trace.events)))


@pytest.mark.parametrize(
    ("broken", "meant"),
    [
        ('say "hi"', 'say "hi"'),
        ('"', '"'),
        ('a "b", c', 'a "b", c'),
        ("C:\\work\\new", "C:\\work\new"),
        ("C:\\work\\project", "C:\\work\\project"),
        ('ends in \\"', 'ends in "'),
    ],
)
def test_a_name_with_quotes_or_backslashes_is_mended(broken: str, meant: str, tmp_path: Path) -> None:
    trace = trace_of(ops("before", broken, "after"), tmp_path)
    assert [name for name in names(trace) if name not in ("before", "after")] in ([meant], [broken])
    assert len(trace.events) == 3
    assert trace.events.start_ns.tolist() == [10_000, 11_000, 12_000]
    assert trace.metadata["traceName"] == "t"


def test_control_characters_in_names_are_read(tmp_path: Path) -> None:
    trace = trace_of(ops("tab\there", "line\nbreak", "bell\x01"), tmp_path)
    assert names(trace) == ["tab\there", "line\nbreak", "bell\x01"]
    assert health(trace) == {}


def test_bytes_that_are_no_text_are_replaced_and_counted(tmp_path: Path) -> None:
    text = around(ops("caf\u00e9", "plain"))
    trace = read(written(text.encode("latin-1"), tmp_path))
    assert names(trace) == ["caf\ufffd", "plain"]
    assert health(trace) == {"NOT-UTF8": 1}


def test_half_a_surrogate_pair_is_replaced_and_counted(tmp_path: Path) -> None:
    trace = trace_of(ops("\\ud83d", "\\ud83d\\ude00"), tmp_path)
    assert names(trace) == ["\ufffd", "\U0001f600"]
    assert health(trace) == {"NOT-UTF8": 1}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "inf", "-inf", "nan", "N/A"])
def test_values_that_json_has_no_word_for_are_absent(word: str, tmp_path: Path) -> None:
    start = '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "pid": 0, "tid": 7, "ts": 1, "dur": 0, "args": '
    trace = trace_of(f'{start}{{"bytes": 4, "memory bandwidth (GB/s)": {word}, "stream": 7}}}}', tmp_path)
    assert "memory bandwidth (GB/s)" not in trace.events.arguments
    assert trace.events.column("bytes").at([0], -1).tolist() == [4]
    assert sum(health(trace).values()) == 1


def test_a_bandwidth_in_words_is_absent_and_counted(tmp_path: Path) -> None:
    one = '{"ph": "X", "cat": "gpu_memcpy", "name": "c", "pid": 0, "tid": 7, "ts": 1, "dur": 0, "args": '
    events = [f'{one}{{"memory bandwidth (GB/s)": {value}}}}}' for value in ('"N/A"', "1.5", "2")]
    trace = trace_of(", ".join(events), tmp_path)
    assert trace.events.column("memory bandwidth (GB/s)").rows.tolist() == [1, 2]
    assert trace.events.column("memory bandwidth (GB/s)").values.tolist() == [1.5, 2.0]
    assert health(trace) == {"ARGUMENTS-DROPPED": 1}


def test_bytes_written_as_text_are_numbers(tmp_path: Path) -> None:
    one = '{"ph": "X", "cat": "gpu_memcpy", "name": "c", "pid": 0, "tid": 7, "ts": 1, "dur": 0, "args": {"bytes": %s}}'
    trace = trace_of(", ".join(one % value for value in ('"128"', "64")), tmp_path)
    assert trace.events.column("bytes").values.tolist() == [128, 64]


@pytest.mark.parametrize("comma", [",", ", \n"])
def test_a_comma_before_the_bracket_is_tolerated(comma: str, tmp_path: Path) -> None:
    assert names(trace_of(ops("a", "b") + comma, tmp_path)) == ["a", "b"]


def test_an_empty_event_is_a_row_and_nothing_else(tmp_path: Path) -> None:
    trace = trace_of(ops("a") + ", {}", tmp_path)
    assert trace.events.phase.tolist() == [ord("X"), 0]
    assert trace.rows("cpu_op").tolist() == [0]


def test_what_is_no_event_is_dropped_and_counted(tmp_path: Path) -> None:
    trace = trace_of(f"null, 5, {ops('a')}, []", tmp_path)
    assert names(trace) == ["a"]
    assert health(trace) == {"EVENTS-DROPPED": 3}


def test_an_event_beyond_mending_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    trace = trace_of(f'{ops("a")}, {{"ph": "X", ,,"ts" 3 dur}}, {ops("b", "c")}', tmp_path)
    assert names(trace) == ["a", "b", "c"]
    assert health(trace) == {"EVENTS-DROPPED": 1}


def test_arguments_that_are_no_object_cost_only_themselves(tmp_path: Path) -> None:
    start = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": '
    events = ", ".join(f"{start}{args}}}" for args in ("null", '"text"', "[1]", '{"External id": 7}'))
    trace = trace_of(events, tmp_path)
    assert len(trace.rows("cpu_op")) == 4
    assert trace.events.column("External id").rows.tolist() == [3]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_file_that_breaks_off_gives_all_complete_events(packed: bool, tmp_path: Path) -> None:
    whole = around(ops(*(f"op{number}" for number in range(1000))))
    if packed:
        data = gzip.compress(whole.encode(), mtime=0)
        path = written(data[: len(data) * 2 // 3], tmp_path)
    else:
        path = written(whole[: len(whole) * 2 // 3], tmp_path)
    trace = read(path)
    assert names(trace) == [f"op{number}" for number in range(len(trace.events))]
    assert 500 < len(trace.events) < 1000
    assert list(health(trace)) == ["TRUNCATED"]
    assert trace.metadata["schemaVersion"] == 1


def test_lost_bytes_are_said(tmp_path: Path) -> None:
    trace = read(written(around(f'{ops("a")}, {{"ph": "X", "na').removesuffix("]}"), tmp_path))
    assert "15 bytes at the end were lost" in trace.health[0].message


def test_a_list_without_its_bracket_is_whole(tmp_path: Path) -> None:
    assert names(read(written(f"[{ops('a', 'b')}", tmp_path))) == ["a", "b"]
    assert names(read(written(f"[{ops('a', 'b')},\n", tmp_path))) == ["a", "b"]


def test_a_file_cut_after_its_events_keeps_them(tmp_path: Path) -> None:
    trace = read(written(around(ops("a"), ', "tra').removesuffix("}"), tmp_path))
    assert names(trace) == ["a"]
    assert list(health(trace)) == ["TRUNCATED"]


def test_several_gzip_members_are_one_text(tmp_path: Path) -> None:
    text = around(ops("a", "b", "c")).encode()
    members = gzip.compress(text[:50]) + gzip.compress(text[50:]) + b"\0" * 100
    assert names(read(written(members, tmp_path))) == ["a", "b", "c"]


def test_damaged_gzip_gives_what_came_before(tmp_path: Path) -> None:
    text = around(ops(*(f"{random.Random(number).random()}" for number in range(4_000))))
    data = bytearray(gzip.compress(text.encode()))
    data[len(data) // 2 :] = bytes(reversed(data[len(data) // 2 :]))
    trace = read(written(bytes(data), tmp_path))
    assert 0 < len(trace.events) < 4_000
    assert "TRUNCATED" in health(trace)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    assert names(read(written(b"\xef\xbb\xbf" + f"[{ops('a')}]".encode(), tmp_path))) == ["a"]


def test_a_broken_line_of_the_header_takes_no_other_with_it(tmp_path: Path) -> None:
    text = '{\n"schemaVersion": 1,\n"k": "a /"q/"",\n"host_name": "vm",\n"traceEvents": [\n%s\n],\n"traceName": "t"\n}'
    trace = read(written(text % ops("a"), tmp_path))
    assert trace.metadata == {"schemaVersion": 1, "host_name": "vm", "traceName": "t"}
    assert health(trace) == {"HEADER-MENDED": 1}


def test_events_that_are_not_the_outer_ones_are_not_taken(tmp_path: Path) -> None:
    text = '{"note": "\\"traceEvents\\": [", "old": {"traceEvents": [%s]}, "traceEvents": [%s]}'
    assert names(read(written(text % (ops("inner"), ops("outer")), tmp_path))) == ["outer"]


def test_events_may_come_last_or_in_the_middle(tmp_path: Path) -> None:
    trace = read(written(around(ops("a"), ', "metadata": {"a": [1]}'), tmp_path))
    assert names(trace) == ["a"]
    assert trace.metadata == {"schemaVersion": 1, "metadata": {"a": [1]}}


TIMES = [
    ("1712195495519689.047", 1_712_195_495_519_689_047),
    ("4458676522690.655", 4_458_676_522_690_655),
    ("7952400000000.001", 7_952_400_000_000_001),
    ("8796093022208.001", 8_796_093_022_208_001),
    ("1695835542514261", 1_695_835_542_514_261_000),
    ("0.001", 1),
    ("5.5", 5_500),
    ('"1712195495519689.047"', 1_712_195_495_519_689_047),
    ("1.5e3", 1_500_000),
]


@pytest.mark.parametrize(("ts", "start_ns"), TIMES)
def test_times_are_exact_to_the_nanosecond(ts: str, start_ns: int, tmp_path: Path) -> None:
    assert trace_of(OP % ("a", ts), tmp_path).events.start_ns.tolist() == [start_ns]


def test_every_nanosecond_of_a_quarter_survives_the_way_through_a_double(tmp_path: Path) -> None:
    rng = random.Random(7)
    wanted = [rng.randrange(7_952_400_000_000_000) for _ in range(20_000)]
    trace = trace_of(", ".join(OP % ("a", f"{time // 1000}.{time % 1000:03}") for time in wanted), tmp_path)
    assert trace.events.start_ns.tolist() == wanted


BAD_TIMES = ['"soon"', "1e400", str(2**70), "[1]", "true", "9" * 400]


@pytest.mark.parametrize("ts", BAD_TIMES)
def test_what_is_no_time_takes_the_event_out_of_every_measure(ts: str, tmp_path: Path) -> None:
    trace = trace_of(f"{OP % ('bad', ts)}, {ops('good')}", tmp_path)
    assert names(trace) == ["bad", "good"]
    assert trace.rows("cpu_op").tolist() == [1]
    assert health(trace)["EVENTS-UNTIMED"] == 1


def test_a_negative_duration_counts_as_none(tmp_path: Path) -> None:
    trace = trace_of(OP.replace('"dur": 5', '"dur": -3') % ("a", 7), tmp_path)
    assert trace.events.dur_ns.tolist() == [0]
    assert health(trace) == {"DURATIONS-NEGATIVE": 1}


def test_a_duration_that_wrapped_around_is_not_believed(tmp_path: Path) -> None:
    trace = trace_of(f"{OP.replace('5', str(2**64 - 7)) % ('a', 7)}, {ops('b')}", tmp_path)
    assert trace.rows("cpu_op").tolist() == [1]
    assert health(trace)["EVENTS-UNTIMED"] == 1


def test_events_at_time_zero_a_day_before_the_others_are_left_out(tmp_path: Path) -> None:
    kernel = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": %s, "dur": %s, "args": {"device": 0}}'
    trace = trace_of(", ".join((kernel % ("0.000", "0.000"), kernel % ("88511388202.755", "2.500"))), tmp_path)
    assert totals(trace).devices["0"].span_ns == 2_500
    assert health(trace) == {"TIMES-FAR": 1}


def test_a_kernel_from_before_the_program_is_left_out(tmp_path: Path) -> None:
    trace = trace_of(f"{OP % ('early', 5)}, {OP % ('a', 88511388202)}, {OP % ('b', 88511388209)}", tmp_path)
    assert trace.rows("cpu_op").tolist() == [1, 2]
    assert health(trace) == {"TIMES-FAR": 1}


def test_a_recording_that_starts_at_zero_is_left_alone(tmp_path: Path) -> None:
    trace = trace_of(f"{OP.replace('5', '0') % ('a', 0)}, {ops('b')}", tmp_path)
    assert len(trace.rows("cpu_op")) == 2


def test_numbers_beyond_64_bits_stay_exact_as_text(tmp_path: Path) -> None:
    op = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": {"Comms Id": %s}}'
    trace = trace_of(", ".join(op % number for number in (10159970886766084423, 7)), tmp_path)
    column = trace.events.text("Comms Id")
    assert [column.text_at(0), column.text_at(1)] == ["10159970886766084423", "7"]


def test_whole_numbers_among_fractions_are_never_rounded(tmp_path: Path) -> None:
    op = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": {"x": %s}}'
    trace = trace_of(", ".join(op % number for number in (2**60 + 1, 0.5)), tmp_path)
    column = trace.events.text("x")
    assert [column.text_at(0), column.text_at(1)] == [str(2**60 + 1), "0.5"]


def test_an_argument_may_change_its_kind_within_a_file(tmp_path: Path) -> None:
    op = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": {"x": %s}}'
    trace = trace_of(", ".join(op % value for value in ("1", "null", '"two"', "[3,  4]", "true", "1.5")), tmp_path)
    column = trace.events.text("x")
    assert column.rows.tolist() == [0, 2, 3, 4, 5]
    assert [column.text_at(row) for row in (0, 2, 3, 4, 5)] == ["1", "two", "[3, 4]", "true", "1.5"]


def test_the_last_of_two_equal_keys_counts(tmp_path: Path) -> None:
    op = '{"ph": "X", "cat": "cpu_op", "name": "a", "name": "b", "ts": 1, "dur": 1, "args": {"x": 1, "x": 2}}'
    trace = trace_of(op, tmp_path)
    assert (names(trace), trace.events.column("x").values.tolist()) == (["b"], [2])


def test_unknown_categories_are_kept_and_counted(tmp_path: Path) -> None:
    trace = trace_of(f"{ops('a')}, {OP.replace('cpu_op', 'critical_path') % ('c', 3)}", tmp_path)
    assert trace.rows("critical_path").tolist() == [1]
    assert health(trace) == {"CATEGORIES-UNKNOWN": 1}


def test_the_autograd_profilers_own_export_is_read(tmp_path: Path) -> None:
    one = '{"name": "%s", "ph": "X", "ts": 5, "dur": 2, "tid": 1, "pid": "%s functions", "args": {}}'
    trace = read(written(f"[{one % ('mm', 'CPU')}, {one % ('mm', 'CUDA')}]", tmp_path))
    assert (trace.rows("cpu_op").tolist(), trace.rows("kernel").tolist()) == ([0], [1])
    assert trace.producer == "looks like the autograd profiler's own export (no kineto)"


def test_memory_events_without_a_category_get_theirs(tmp_path: Path) -> None:
    one = '{"name": "[memory]", "ph": "i", "ts": 5, "s": "t", "pid": 1, "tid": 1, "args": {"Bytes": 512}}'
    trace = trace_of(f"{ops('a')}, {one}", tmp_path)
    assert trace.events.category_of(1) == "cpu_instant_event"


def test_calls_to_a_gpus_runtime_that_launch_nothing_leave_a_run_on_the_cpu(tmp_path: Path) -> None:
    call = OP.replace("cpu_op", "cuda_runtime") % ("cudaDeviceSynchronize", 20)
    trace = trace_of(f"{ops('aten::mm')}, {call}", tmp_path)
    assert Has.CPU_ONLY in trace.has
    assert "kept to the CPU, or no GPU activity was recorded" in trace.health[0].message


def test_launches_without_any_gpu_work_say_that_it_was_not_recorded(tmp_path: Path) -> None:
    call = OP.replace("cpu_op", "cuda_runtime") % ("cudaLaunchKernel", 20)
    trace = trace_of(f"{ops('aten::mm')}, {call}", tmp_path)
    assert Has.CPU_ONLY not in trace.has
    assert "1 of them launches, copies or memsets, but no GPU activity was recorded" in trace.health[0].message


REFUSED = [
    (b"", "is empty"),
    (b"  \n ", "is empty"),
    (gzip.compress(b""), "is empty"),
    (b"hello", "byte 0 starts 'hello'"),
    (b'{"a": 1}', "no traceEvents"),
    (b'{"schemaVersion": 1, "traceEvents": {}}', "no list called traceEvents"),
    (b'{"schemaVersion": 1, "traceEvents": null}', "no list called traceEvents"),
    (b'{"schemaVersion": 1, "deviceProperties": [', "breaks off at byte 42"),
    (b'{"schemaVersion": 1, "traceEvents": []}', "without events"),
    (b'{"traceEvents": [{"ph": "M", "name": "process_name", "args": {"name": "p"}}]}', "only the names"),
    (b'{"traceEvents": [{"ph": "X", "nam', "breaks off within its first event"),
    (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": "soon", "dur": 1}]}', "none of them has a usable time"),
    (b'{"traceEvents": [{"ph": "X", ,,}, {"ph": 3 3}]}', "damaged throughout: none of its 2 events"),
    (b"SQLite format 3\x00abc", "an SQLite database"),
    (b"PK\x03\x04abc", "a zip archive"),
    (b"<!doctype html>", "an HTML or XML page"),
    (b"\x00\x01\x02\xff", "byte 0 starts"),
    (b"\x1f\x8bgarbage that is no gzip", "compressed data is damaged"),
]


@pytest.mark.parametrize(("content", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_what_is_no_trace_is_refused_in_a_sentence(content: bytes, says: str, tmp_path: Path) -> None:
    path = written(content, tmp_path)
    with pytest.raises(UnreadableTrace, match=says) as refused:
        read(path)
    assert str(path) in str(refused.value)
    assert str(refused.value).endswith(".")


def test_a_file_that_is_not_there_or_is_a_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTrace, match="cannot be opened"):
        read(tmp_path / "nothing.json")
    with pytest.raises(UnreadableTrace, match="is a folder"):
        read(tmp_path)


def test_a_file_that_inflates_without_end_is_refused(tmp_path: Path) -> None:
    path = written(gzip.compress(b"[" + b" " * 600_000_000), tmp_path)
    with pytest.raises(UnreadableTrace):
        read(path)


@pytest.mark.parametrize("size", [1, 64, 300, 5000])
def test_where_the_text_is_cut_makes_no_difference(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested = OP.replace("3}", '3, "l": [{"id": 1}, {"id": 2}]}') % ('n }, {\\"ph\\": ', 3)
    events = ", ".join((ops("a", "b"), nested, ops("c")) * 30)
    text = around(events, ', "pg": [{"name": 1}, {"name": 2}]')
    whole = read(written(text, tmp_path))
    monkeypatch.setattr(_text, "CHUNK_BYTES", size)
    monkeypatch.setattr("profiler_doctor.analyzer.formats._events.CHUNK_BYTES", size)
    monkeypatch.setattr("profiler_doctor.analyzer.formats._bytes.READ_BYTES", max(size // 2, 1))
    cut = read(tmp_path / "trace.json")
    assert (names(cut), health(cut), cut.metadata) == (names(whole), {}, whole.metadata)
    assert _arguments(cut) == _arguments(whole)
    assert whole.events.text("l").text_at(2) == '[{"id": 1}, {"id": 2}]'


def _arguments(trace: Trace) -> dict[str, Any]:
    return {name: (column.rows.tolist(), column.values.tolist()) for name, column in trace.events.arguments.items()}


def test_layouts_make_no_difference(tmp_path: Path) -> None:
    events = [json.loads(OP % (f"op{number}", number)) for number in range(50)]
    texts = [json.dumps({"traceEvents": events}, indent=indent, separators=between)
             for indent, between in ((None, None), (None, (",", ":")), (2, None), (4, None))]  # fmt: skip
    found = [read(written(text, tmp_path)) for text in texts]
    assert all(names(trace) == names(found[0]) for trace in found)
    assert all(_arguments(trace) == _arguments(found[0]) for trace in found)
