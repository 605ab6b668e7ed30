"""The run folder: the only place we write to."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from profiler_doctor.analyzer.errors import CannotWrite
from profiler_doctor.analyzer.files import write_whole

HOME = ".profiler-doctor"
LATEST = "latest"
IGNORED = "*\n!baseline.json\n"
"""What git leaves alone in there: everything but a baseline that somebody wants to share."""


def make(name: str, where: Path, now: datetime) -> Path:
    """A new folder `.profiler-doctor/<time>-<name>/` in `where`, for the run of the script `name` at `now`.

    Raises CannotWrite where it cannot be made, before the script is started.
    """
    try:
        return _made(name, where / HOME, now)
    except OSError as error:
        why = error.strerror or error
        raise CannotWrite(
            f"The run's files go to {where / HOME}, which cannot be made: {why}. Run elsewhere."
        ) from error


def _made(name: str, home: Path, now: datetime) -> Path:
    home.mkdir(exist_ok=True)
    _sweep_after_the_dead(home)
    if not (home / ".gitignore").exists():
        write_whole(home / ".gitignore", IGNORED.encode())
    stem = re.sub(r"[^\w.-]+", "_", name.removesuffix(".py")) or "script"
    first = f"{now:%Y%m%d-%H%M%S}-{stem}"
    for number in range(1, 1000):
        with contextlib.suppress(FileExistsError):
            folder = home / (first if number == 1 else f"{first}-{number}")
            folder.mkdir()
            return folder
    raise FileExistsError(f"There are 999 folders of the name {first} in {home} already.")


@contextmanager
def kept_if_whole(folder: Path) -> Iterator[Path]:
    """Let a folder be filled. Where that fails before a trace is in it, it goes; half-written files go always."""
    try:
        yield folder
    except BaseException:
        if not any(folder.glob("*.json.gz")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        sweep(folder)


def sweep(folder: Path) -> None:
    """Remove what was not finished."""
    for pattern in ("*.part*", ".*.tmp"):
        for part in folder.glob(pattern):
            part.unlink(missing_ok=True)


def _sweep_after_the_dead(home: Path) -> None:
    """Remove what processes that were killed have left half-written; their number stands in the file's name."""
    for part in home.glob("*/*.part*"):
        writer = re.search(r"\.(\d+)\.part", part.name)
        if writer is not None and not Path(f"/proc/{writer[1]}").exists() and Path("/proc/self").exists():
            part.unlink(missing_ok=True)


def point_latest(folder: Path) -> None:
    """Let `latest` beside the folder point to it, at no moment to nothing. Without symbolic links there is none."""
    link = folder.parent / f"{LATEST}.{os.getpid()}.part"
    with contextlib.suppress(OSError):
        link.symlink_to(folder.name, target_is_directory=True)
        link.replace(folder.parent / LATEST)
