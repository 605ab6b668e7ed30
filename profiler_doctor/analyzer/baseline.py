"""The baseline: what a check was agreed to be held against, in a small file that is committed and reviewed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from profiler_doctor.analyzer.capture.folder import HOME, IGNORED
from profiler_doctor.analyzer.counters import Counters, Value
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.files import write_whole

SCHEMA_VERSION = 1
FILE = Path(HOME) / "baseline.json"
UPDATE = "the same command with --update writes a new one"
CONFLICT = b"<<<<<<< "
"""How a line begins that git could not merge."""
EVERYWHERE = ("profiler_doctor", "torch", "device", "devices", "isa", "threads")
"""Circumstances on which counters depend: another version or device calls other ops."""


class NoBaseline(UserError):
    """There is nothing to compare with: no file, none that can be used, or nothing about this workload in it."""

    exit_code = ExitCode.INCONCLUSIVE


class BrokenBaseline(UserError):
    """The file is there and cannot be read."""


@dataclass(frozen=True, kw_only=True)
class StoredTime:
    """Un-profiled step times of the baseline's own runs: a median of each process, ns."""

    step_ns: tuple[int, ...]
    cpu_ns: tuple[int, ...]
    machine_ns: int
    """What a fixed piece of work of ours took on that machine then."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one workload did."""

    command: tuple[str, ...]
    circumstances: Mapping[str, object]
    counters: Mapping[str, Value]
    varying: tuple[str, ...] = ()
    """Counters that are none here, because they vary."""
    ops: Mapping[str, int | None] = field(default_factory=dict)
    """Calls in a window; null: they vary."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of the program as `file: text` → ops that a window calls from it."""
    window_steps: int = 1
    time: StoredTime | None = None

    @staticmethod
    def of(counters: Counters, command: tuple[str, ...], circumstances: Mapping[str, object]) -> Entry:
        """As it is to be stored."""
        return Entry(
            command=command,
            circumstances=circumstances,
            counters=dict(counters.exact),
            varying=tuple(sorted(counters.information)),
            ops={**counters.ops, **dict.fromkeys(counters.varying)},
            window_steps=counters.window_steps,
        )

    def as_counters(self) -> Counters:
        """As it is to be compared."""
        return Counters(
            exact=self.counters,
            information=dict.fromkeys(self.varying, ()),
            ops={name: count for name, count in self.ops.items() if count is not None},
            varying=frozenset(name for name, count in self.ops.items() if count is None),
            window_steps=self.window_steps,
        )


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """All workloads of one file."""

    workloads: Mapping[str, Entry] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


def load(path: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        NoBaseline: there is no such file, or an older or newer version wrote it: exit code 3.
        BrokenBaseline: it is no baseline: exit code 2.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NoBaseline(
            f"There is no baseline {path}: the same command with --update writes it, to be committed; or --base REV "
            "compares with a revision and needs none."
        ) from None
    except OSError as error:
        raise BrokenBaseline(f"The baseline {path} cannot be read: {error.strerror or error}.") from error
    _check_version(content, path)
    try:
        return msgspec.json.decode(content, type=Baseline)
    except msgspec.ValidationError as error:
        raise BrokenBaseline(
            f"The baseline {path} has a field that does not fit: {error}. Mend it, or {UPDATE}."
        ) from error


def entry(baseline: Baseline, workload: str, path: Path) -> Entry:
    """What is stored of one workload. Raises NoBaseline where there is nothing."""
    found = baseline.workloads.get(workload)
    if found is None:
        known = ", ".join(sorted(baseline.workloads)) or "none"
        raise NoBaseline(
            f"The baseline {path} holds nothing about the workload {workload!r} (it has {known}): the same command "
            "with --update adds it."
        )
    return found


def save(path: Path, entries: Mapping[str, Entry]) -> Path:
    """Write these workloads over those of the file, and leave its others; sorted, so that a diff shows what changed.

    A file that cannot be read is written anew, and what it said of other workloads is gone (`lost` says so before).
    """
    try:
        known = load(path)
    except UserError:
        known = Baseline()
    workloads = {**known.workloads, **entries}
    if path.parent.name == FILE.parent.name:
        _let_through(path.parent / ".gitignore")
    document = asdict(Baseline(workloads=workloads))
    return write_whole(path, f"{json.dumps(document, indent=1, sort_keys=True)}\n".encode())


def lost(path: Path) -> str:
    """What `save` cannot keep of a file that is there, as a sentence; empty: it keeps the other workloads."""
    try:
        load(path)
    except UserError:
        return "The old file could not be read, so nothing of it was kept." if path.exists() else ""
    return ""


def differing(entry: Entry, circumstances: Mapping[str, object], *, time: bool) -> tuple[str, ...]:
    """What differs between then and now and forbids a comparison: of counters, or of `time` too. In words."""
    names = [name for name in {**entry.circumstances, **circumstances} if time or name in EVERYWHERE]
    return tuple(
        f"{name.replace('_', ' ')} was {_word(entry.circumstances.get(name))} and is {_word(circumstances.get(name))}"
        for name in sorted(names)
        if entry.circumstances.get(name) != circumstances.get(name)
    )


def _word(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value in (None, "") else str(value)


def _check_version(content: bytes, path: Path) -> None:
    try:
        parsed = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = "git left a conflict in it" if CONFLICT in content else str(error) if content.strip() else "it is empty"
        raise BrokenBaseline(f"The baseline {path} is not JSON: {why}. Mend it, or {UPDATE}.") from error
    version = parsed.get("schema_version") if isinstance(parsed, dict) else None
    if not isinstance(version, int):
        raise BrokenBaseline(
            f"{path} is not a baseline of profiler-doctor: it has no schema_version. Name another file, or {UPDATE}."
        )
    if version != SCHEMA_VERSION:
        age, cure = ("an older", UPDATE) if version < SCHEMA_VERSION else ("a newer", "update profiler-doctor here")
        raise NoBaseline(
            f"The baseline {path} was written by {age} profiler-doctor (version {version}, this one reads "
            f"{SCHEMA_VERSION}), so nothing can be compared: {cure}."
        )


def _let_through(ignores: Path) -> None:
    """Have git see the baseline in the folder that it otherwise ignores."""
    known = ignores.read_text(encoding="utf-8") if ignores.exists() else ""
    missing = [line for line in IGNORED.splitlines() if line not in known.splitlines()]
    if missing:
        write_whole(ignores, (known + "".join(f"{line}\n" for line in missing)).encode())
