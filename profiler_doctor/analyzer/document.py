"""The finished diagnosis as a file: `diagnosis.json`, and the schema that says what stands in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.files import write_whole
from profiler_doctor.analyzer.model import SCHEMA_VERSION, Diagnosis

FILENAME = "diagnosis.json"
"""What it is called in the folder of a run."""
SCHEMA_TITLE = "profiler-doctor diagnosis"


class UnreadableDocument(UserError):
    """A file was given as a diagnosis and is none that this version can read."""


def encode(diagnosis: Diagnosis) -> bytes:
    """The document as indented JSON, the fields in the order of the model and the keys of mappings in theirs.

    Values that are no JSON (a numpy number or a Path in the evidence, half a surrogate pair in a name) become their
    nearest one; a float that is not finite becomes null.
    """
    try:
        compact = msgspec.json.encode(diagnosis, order="deterministic", enc_hook=_nearest_json)
    except UnicodeEncodeError:  # half a surrogate pair somewhere in a name: rare, and the careful way is slow
        whole = msgspec.convert(_without_surrogates(asdict(diagnosis)), Diagnosis)
        compact = msgspec.json.encode(whole, order="deterministic")
    return msgspec.json.format(compact, indent=2) + b"\n"


def save(diagnosis: Diagnosis, path: Path) -> Path:
    """Write the document, whole or not at all."""
    return write_whole(path, encode(diagnosis))


def load(path: Path) -> Diagnosis:
    """The document in a file. Raises UnreadableDocument with a sentence that says what the file is instead."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableDocument(f"{path} cannot be read: {error.strerror}.") from error
    return decode(content, str(path))


def decode(content: bytes, source: str) -> Diagnosis:
    """The document in `content`; `source` names it in the sentence of an UnreadableDocument."""
    version = _schema_version(content, source)
    if version > SCHEMA_VERSION:
        raise UnreadableDocument(
            f"{source} was written by a newer profiler-doctor (document version {version}, this one reads up to "
            f"{SCHEMA_VERSION}): update profiler-doctor and try again."
        )
    try:
        return msgspec.json.decode(content, type=Diagnosis)
    except msgspec.ValidationError as error:
        raise UnreadableDocument(f"{source} is a diagnosis with a field that does not fit: {error}.") from error


def schema() -> bytes:
    """The JSON Schema of the document, as docs/diagnosis.schema.json holds it."""
    described = msgspec.json.schema(Diagnosis, schema_hook=lambda _: {"description": "any JSON value"})
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA_TITLE}
    return json.dumps({**draft, **described}, indent=2, sort_keys=True).encode() + b"\n"


def _schema_version(content: bytes, source: str) -> int:
    try:
        parsed = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableDocument(f"{source} is not JSON ({error}): a {FILENAME} was expected.") from error
    version = parsed.get("schema_version") if isinstance(parsed, dict) else None
    if isinstance(version, int):
        return version
    hint = "it looks like a trace: use `profiler-doctor analyze` for it" if _is_trace(parsed) else "it has no version"
    raise UnreadableDocument(f"{source} is not a {FILENAME}: {hint}.")


def _is_trace(parsed: Any) -> bool:
    return isinstance(parsed, list) or (isinstance(parsed, dict) and "traceEvents" in parsed)


def _nearest_json(value: Any) -> object:
    if hasattr(value, "tolist"):  # numpy numbers and arrays
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_without_surrogates(str(key)): _without_surrogates(inner) for key, inner in value.items()}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_without_surrogates(inner) for inner in value]
    return _without_surrogates(_nearest_json(value))
