"""diagnosis.json: what is saved is loaded again, the schema describes it, and anything else ends in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.model import Diagnosis, HealthNote
from tests import documents

SCHEMA = Path(__file__).parent.parent / "docs" / "diagnosis.schema.json"


@pytest.mark.parametrize("made", [documents.resnet(), documents.gpu_trace(), documents.healthy(), documents.empty()])
def test_what_was_saved_is_loaded_again(made: Diagnosis, tmp_path: Path) -> None:
    path = document.save(made, tmp_path / "run" / "diagnosis.json")

    assert document.encode(document.load(path)) == document.encode(made)
    assert [left.name for left in path.parent.iterdir()] == ["diagnosis.json"]


def test_the_schema_in_docs_is_up_to_date() -> None:
    assert SCHEMA.read_bytes() == document.schema(), "make docs"


@pytest.mark.parametrize(
    "made", [documents.resnet(), documents.gpu_trace(), documents.hostile("<b>"), documents.empty()]
)
def test_a_document_fits_the_schema(made: Diagnosis) -> None:
    schema = json.loads(SCHEMA.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)

    jsonschema.validate(json.loads(document.encode(made)), schema)


def test_the_names_that_others_rely_on_are_there() -> None:
    written = json.loads(document.encode(documents.gpu_trace()))

    assert written["schema_version"] == 1
    assert written["totals"]["devices"]["0"]["busy_ns"] == 41_000_000
    assert written["totals"]["idle_by_cause"]["op_dispatch"] == 80_000_000
    assert written["outcomes"][0]["findings"][0]["stake"]["share"] == 0.52


def test_the_order_of_keys_does_not_depend_on_how_they_were_put_in() -> None:
    one = replace(documents.empty(), environment={"a": 1, "b": {"c": 1, "d": 2}})
    other = replace(documents.empty(), environment={"b": {"d": 2, "c": 1}, "a": 1})

    assert document.encode(one) == document.encode(other)


def test_values_that_json_lacks_become_their_nearest_one() -> None:
    environment = {
        "n": np.int64(3),
        "path": Path("a/b"),
        "set": {1},
        "no": float("nan"),
        "half": "\ud800",
        "array": np.arange(2),
    }

    written = json.loads(document.encode(replace(documents.empty(), environment=environment)))["environment"]

    assert written == {"n": 3, "path": "a/b", "set": [1], "no": None, "half": "?", "array": [0, 1]}


def test_integers_beyond_64_bits_survive() -> None:
    note = HealthNote(code="X", message="m", events=2**70)

    assert document.decode(document.encode(replace(documents.empty(), health=(note,))), "x").health[0].events == 2**70


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\x04", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[]", "profiler-doctor analyze"),
        (b'{"traceEvents": []}', "profiler-doctor analyze"),
        (b'{"a": 1}', "is not a diagnosis.json"),
        (b'{"schema_version": 99}', "newer profiler-doctor"),
        (b'{"schema_version": 1}', "does not fit"),
    ],
)
def test_anything_else_ends_in_a_sentence(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)

    with pytest.raises(document.UnreadableDocument, match=says) as caught:
        document.load(path)

    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(document.UnreadableDocument, match=r"gone\.json cannot be read"):
        document.load(tmp_path / "gone.json")
