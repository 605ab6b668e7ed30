"""What the user names (files, folders, archives, addresses, standard input), as files on this machine."""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from profiler_doctor.analyzer.errors import UnreadableTrace, UserError
from profiler_doctor.analyzer.formats._bytes import first_bytes

STANDARD_INPUT = "-"
ADDRESS = re.compile(r"^[A-Za-z][\w+.-]*://|^[A-Za-z][\w+.-]*::")
"""A scheme, as fsspec knows them; a drive letter alone is none."""
SECRET = re.compile(r"(?<=//)[^/@]*@|[?#].*$")
"""User, password and signature of an address: never part of a name that we show."""
ZIP = b"PK\x03\x04"
TAR_MARK, TAR_AT = b"ustar", 257
BOMB_BYTES, BOMB_RATIO = 1 << 30, 200
"""An archive that unpacks to more than 1 GiB and 200 times its size is refused: traces pack 10 to 60 times."""
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError)
"""What the archive readers raise; RuntimeError is an encrypted zip, NotImplementedError a rare compression."""


class MissingExtra(UserError):
    """Something was asked for that needs a package which is not installed."""


@dataclass(frozen=True)
class File:
    """A file on this machine, and how the user would name it (`ranks.zip!rank3.json`)."""

    path: Path
    name: str
    alone: bool = True
    """Whether the user named this very file; else it was found in a folder or archive, and need not be a trace."""

    @property
    def folder(self) -> str:
        """Everything of the name before its last part."""
        return re.split(r"[/\\!](?=[^/\\!]*$)", self.name)[0] if re.search(r"[/\\!]", self.name) else ""


@dataclass(frozen=True)
class Workspace:
    """A folder of our own for what is not yet a file, and where standard input comes from."""

    folder: Path
    stdin: IO[bytes]

    def place(self, name: str) -> Path:
        """A new path that keeps the last part of a name, by which formats and ranks may be told."""
        last = PurePosixPath(name.replace("\\", "/")).name or "unnamed"
        inside = self.folder / str(sum(1 for _ in self.folder.iterdir()))
        inside.mkdir()
        return inside / last


def local_files(inputs: Sequence[str | Path], workspace: Workspace) -> list[File]:
    """All files that the inputs stand for, in natural order (rank2 before rank10) within each input.

    Raises UnreadableTrace where an input is not there, or an archive is damaged.
    """
    return [file for given in inputs for file in sorted(_files(str(given), workspace), key=_natural)]


def _files(given: str, workspace: Workspace) -> Iterable[File]:
    if given == STANDARD_INPUT:
        return _unpacked(File(_spooled(workspace.stdin, workspace), "standard input"), workspace)
    if ADDRESS.match(given):
        return (file for fetched in _fetched(given, workspace) for file in _unpacked(fetched, workspace))
    path = Path(given)
    if not path.exists():
        raise UnreadableTrace(
            f"{path} is not there; name a trace, a folder or archive of them, or - for standard input."
        )
    if path.is_dir():
        return (file for found in _in_folder(path) for file in _unpacked(found, workspace))
    if path.is_fifo():  # `<(zcat trace.gz)`: it can be read once, and a format is found by reading
        with path.open("rb") as pipe:
            return _unpacked(File(_spooled(pipe, workspace), str(path)), workspace)
    return _unpacked(File(path, str(path)), workspace)


def _in_folder(folder: Path) -> Iterator[File]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield File(path, str(path), alone=False)


def _spooled(pipe: IO[bytes], workspace: Workspace) -> Path:
    path = workspace.place("standard-input")
    with path.open("wb") as file:
        shutil.copyfileobj(pipe, file)
    return path


def _fetched(address: str, workspace: Workspace) -> Iterator[File]:
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra(f"{_shown(address)} is an address; install profiler-doctor[remote] to read it.") from error
    try:
        system, path = fsspec.core.url_to_fs(address)
        many = system.isdir(path) or "*" in path
        found = (system.glob(path) if "*" in path else system.find(path)) if many else [path]
        for one in found:
            target = workspace.place(SECRET.sub("", str(one)))
            system.get_file(one, str(target))
            yield File(target, f"{_shown(address)}/{PurePosixPath(one).name}" if many else _shown(address), not many)
    except Exception as error:  # every file system of fsspec has errors of its own
        raise UnreadableTrace(f"{_shown(address)} cannot be fetched: {error or type(error).__name__}.") from error


def _shown(address: str) -> str:
    return SECRET.sub("", address)


def _unpacked(file: File, workspace: Workspace) -> Iterator[File]:
    """The members of an archive; any other file as it is."""
    try:
        head = first_bytes(file.path, TAR_AT + len(TAR_MARK))
        if head.startswith(ZIP):
            yield from _of_zip(file, workspace)
        elif head[TAR_AT:] == TAR_MARK:
            yield from _of_tar(file, workspace)
        else:
            yield file
    except DAMAGED as error:
        raise UnreadableTrace(f"{file.name} cannot be read: {error or type(error).__name__}.") from error


def _of_zip(file: File, workspace: Workspace) -> Iterator[File]:
    with zipfile.ZipFile(file.path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        _refuse_bomb(file, sum(member.file_size for member in members))
        for member in members:
            with archive.open(member) as content:
                yield _copied(content, file, member.filename, workspace)


def _of_tar(file: File, workspace: Workspace) -> Iterator[File]:
    unpacked = 0
    with tarfile.open(file.path) as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                unpacked += member.size
                _refuse_bomb(file, unpacked)
                yield _copied(content, file, member.name, workspace)


def _copied(content: IO[bytes], archive: File, member: str, workspace: Workspace) -> File:
    path = workspace.place(member)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
    return File(path, f"{archive.name}!{member}", alone=False)


def _refuse_bomb(archive: File, unpacked: int) -> None:
    if unpacked > max(BOMB_BYTES, BOMB_RATIO * archive.path.stat().st_size):
        raise UnreadableTrace(f"{archive.name} unpacks to more than {BOMB_RATIO} times its size, as no traces do.")


def _natural(file: File) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", file.name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]
