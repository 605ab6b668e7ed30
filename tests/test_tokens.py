"""The tokenizer in C reads the usual, leaves the odd to Python, and whoever reads what, the columns are the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler_doctor.analyzer import native
from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats import _events, _tokens
from profiler_doctor.analyzer.reading import read
from tests import mutations
from tests.conftest import ROOT
from tests.test_reading_exactly import columns
from tests.test_reading_real_traces import KINETO

pytestmark = pytest.mark.skipif(
    _tokens.NATIVE is None, reason="the tokenizer is not here: no C compiler, or not wanted"
)
OP = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2, "ts": 3, "dur": 4, "args": {"External id": 5}}'
MUTATIONS = 150
LARGEST = 100_000


def outcome(path: Path) -> Any:
    """All that a reader says of a file."""
    try:
        trace = read(path)
    except UnreadableTrace as refused:
        return str(refused)
    return columns(trace), trace.health, trace.producer, trace.metadata


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What it is with the tokenizer, and without."""
    found = outcome(path)
    with monkeypatch.context() as patched:
        patched.setattr(_tokens, "NATIVE", None)
        return found, outcome(path)


def taken(text: bytes) -> tuple[str, int, int]:
    """How the tokenizer ended, how many bytes it read for good, and how many events they held."""
    tokenizer = _tokens.NATIVE.Tokenizer()  # type: ignore[union-attr]
    status, count = tokenizer.read(text)
    name = next(name for name in ("CUT", "ODD", "FULL", "CLOSED") if getattr(_tokens.NATIVE, name) == status)
    return name, count, tokenizer.drain()[0]


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_a_sound_trace_is_read_without_any_help_of_python(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "_fast", lambda *_: pytest.fail("Python was asked"))
    assert len(read(path).events)


ODD = {
    "a number that is none": OP.replace(b": 5", b": NaN"),
    "a time with an exponent": OP.replace(b": 3", b": 3e2"),
    "a time beyond all times": OP.replace(b": 3", b": 4611686018427388"),
    "a time that is text": OP.replace(b": 3", b': "3"'),
    "a number with a zero before it": OP.replace(b": 5", b": 05"),
    "a quote within a name": OP.replace(b'"a"', b'"a "b""'),
    "half a character": OP.replace(b'"a"', b'"\\ud83d"'),
    "a character that text cannot have": OP.replace(b'"a"', b'"\\u0000"'),
    "an escape that JSON has not": OP.replace(b'"a"', b'"C:\\p"'),
    "bytes that are no text": OP.replace(b'"a"', b'"\xff"'),
    "a character longer than it need be": OP.replace(b'"a"', b'"\xc0\xaf"'),
    "a name that is no text": OP.replace(b'"a"', b"7"),
    "a thread that is a fraction": OP.replace(b": 2", b": 2.5"),
    "a key twice": OP.replace(b'"tid": 2', b'"pid": 2'),
    "an argument twice": OP.replace(b": 5", b': 5, "External id": null'),
    "arguments twice": OP.replace(b'"args"', b'"args": null, "args"'),
    "arguments that are text": OP.replace(b'{"External id": 5}', b'"none"'),
    "a comma at the end of an object": OP.replace(b": 5", b": 5,"),
    "lists without end": OP.replace(b": 5", b": " + b"[" * 99 + b"]" * 99),
    "an event without anything": b"{}",
    "no event": b"null",
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_an_odd_event_is_left_to_python_and_those_before_it_stay(
    odd: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = b"[" + OP + b", " + OP
    assert taken(before + b"," + odd + b"," + OP + b"]") == ("ODD", len(before), 2)
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": ' + before + b", " + odd + b", " + OP + b"]}")
    found, wanted = both(path, monkeypatch)
    assert found == wanted


USUAL = {
    "escapes": OP.replace(b'"a"', b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00"'),
    "characters of several bytes": OP.replace(b'"a"', '"é€😀"'.encode()),
    "numbers at the edges": OP.replace(b": 5", b': [0], "a": 9223372036854775807, "b": -1, "c": 18446744073709551616'),
    "fractions": OP.replace(b": 5", b': 0.1, "a": -1.5e-7, "b": 0.30000000000000004, "c": 1234567890.123456789'),
    "words": OP.replace(b": 5", b': true, "a": false, "b": null'),
    "nested arguments": OP.replace(b": 5", b': [[1, 2], {"a": "}]"}], "a": {}, "b": []'),
    "an absolute time with decimals": OP.replace(b": 3", b": 1712195495519689.047"),
    "a time finer than a nanosecond": OP.replace(b": 3", b": 17.1234567"),
    "keys that nobody asks for": OP.replace(b'"ph"', b'"bp": "e", "more": [{"ph": "Y"}, {}], "ph"'),
    "texts for numbers": OP.replace(b": 1", b': "Spans"').replace(b": 2", b': "stream 7"'),
    "nulls": b'{"ph": null, "cat": null, "name": null, "pid": null, "tid": null, "ts": null, "dur": null, "id": null}',
    "arguments that are null": OP.replace(b'{"External id": 5}', b"null"),
    "a single key": b'{"ph": "i"}',
}


@pytest.mark.parametrize("usual", USUAL.values(), ids=USUAL.keys())
def test_what_is_right_is_read_as_python_reads_it(
    usual: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"[" + b", ".join((OP, usual, OP, usual, OP))
    assert taken(text + b"]") == ("CLOSED", len(text), 5)
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": ' + text + b"]}")
    found, wanted = both(path, monkeypatch)
    assert found == wanted


def test_a_text_that_ends_anywhere_gives_its_whole_events() -> None:
    text = b"[" + b",\n  ".join((OP, USUAL["escapes"], USUAL["nested arguments"], OP)) + b"]"
    commas = [0, *(place for place in range(len(text)) if text.startswith(b",\n  {", place)), len(text) - 1]
    for end in range(1, len(text) + 1):
        whole = sum(comma < end for comma in commas) - 1
        assert taken(text[:end]) == ("CLOSED" if end == len(text) else "CUT", commas[whole], whole)


def test_args_that_were_null_once_are_read_when_they_are_there() -> None:
    null = OP.replace(b'{"External id": 5}', b"null")
    tokenizer = _tokens.NATIVE.Tokenizer()  # type: ignore[union-attr]
    tokenizer.read(b"[" + b", ".join((null, null, OP, null, OP)) + b"]")
    [(_, _, rows, values)] = tokenizer.drain()[5]
    assert (np.frombuffer(rows, np.int32).tolist(), np.frombuffer(values, np.int64).tolist()) == ([2, 4], [5, 5])


def test_an_odd_event_leaves_nothing_of_itself_behind() -> None:
    tokenizer = _tokens.NATIVE.Tokenizer()  # type: ignore[union-attr]
    odd = OP.replace(b'"a"', b'"odd"').replace(b": 5", b': 6, "x": "odd", "y": NaN')
    status, count = tokenizer.read(b"[" + OP + b"," + odd + b"]")
    rows, _, keys, spellings, _, cells = tokenizer.drain()
    assert (status, count, rows) == (_tokens.NATIVE.ODD, len(OP) + 1, 1)  # type: ignore[union-attr]
    assert [text for _, text in spellings] == [b'"X"', b'"cpu_op"', b'"a"']
    assert [(keys[slot], np.frombuffer(values, np.int64).tolist()) for slot, _, _, values in cells] == [
        ("External id", [5])
    ]


def test_more_rows_than_are_handed_over_at_once_are_all_there(tmp_path: Path) -> None:
    count = 70_000
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([json.loads(OP) | {"ts": place, "name": f"op {place % 777}"} for place in range(count)]))
    events = read(path).events
    assert events.start_ns.tolist() == [1000 * place for place in range(count)]
    assert events.names_at(range(count)) == [f"op {place % 777}" for place in range(count)]
    assert events.column("External id").rows.tolist() == list(range(count))


@pytest.mark.parametrize("part", range(3))
def test_a_damaged_trace_is_the_same_whoever_reads_it(
    part: int, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = [text for _, text in mutations.seeds(shared / "traces") if len(text) < LARGEST and text[:1] in b"{["]
    path, rng = tmp_path / "trace.json", random.Random(part)
    for _ in range(MUTATIONS // 3):
        path.write_bytes(mutations.mutated(rng, rng.choice(traces)))
        found, wanted = both(path, monkeypatch)
        assert found == wanted


def test_a_variable_chooses_python() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from profiler_doctor.analyzer.formats import _tokens; print(_tokens.NATIVE)"],
        cwd=ROOT, env=os.environ | {native.PURE: "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "None\n"
