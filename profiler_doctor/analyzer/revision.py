"""Another revision of the project, checked out beside it for as long as it is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.errors import UserError

BUILT = ("pyproject.toml", "setup.py", "setup.cfg")
"""A folder that has one of these holds a package, which may be installed as a link to it."""
GIT_S = 300.0


class NoSuchRevision(UserError):
    """`--base` names nothing that git can check out here."""


@dataclass(frozen=True)
class Revision:
    """A revision on disk."""

    name: str
    commit: str
    top: Path
    """The folder of its checkout."""
    inside: Path
    """The folder in it that stands for the one we were called in."""

    @property
    def words(self) -> str:
        """For people: what was asked for, and what that is."""
        return self.name if self.commit.startswith(self.name) else f"{self.name} ({self.commit[:10]})"

    @property
    def environment(self) -> dict[str, str]:
        """Lets imports of the project find this checkout, even where the project is installed as a link elsewhere."""
        return import_path(self.top)


def import_path(top: Path) -> dict[str, str]:
    """PYTHONPATH for a project whose folder is `top`; empty where it is no package."""
    if not any((top / name).is_file() for name in BUILT):
        return {}
    folders = [str(folder) for folder in (top / "src", top) if folder.is_dir()]
    theirs = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*folders, *([theirs] if theirs else [])])}


@contextmanager
def checked_out(name: str, where: Path, place: Path) -> Iterator[Revision]:
    """A git worktree of the revision `name` of the repository around `where`, in `place`, which must not exist yet.

    Raises NoSuchRevision where `where` is in no repository, or the repository has no such revision.
    """
    top = _asked(where, "rev-parse", "--show-toplevel")
    commit = _asked(where, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if top else ""
    if not top:
        raise NoSuchRevision(
            f"--base {name}: {where} is in no git repository, so there is no revision to compare with."
        )
    if not commit:
        raise NoSuchRevision(
            f"--base {name}: the repository has no such revision. In CI a shallow clone may lack it: "
            "fetch it first (`fetch-depth: 0`)."
        )
    made = _git(where, "worktree", "add", "--detach", "--force", str(place), commit)
    if made.returncode:
        raise NoSuchRevision(f"--base {name}: git could not check it out: {made.stderr.strip()}")
    try:
        prefix = _asked(where, "rev-parse", "--show-prefix")
        yield Revision(name=name, commit=commit, top=place, inside=place / prefix)
    finally:
        _git(where, "worktree", "remove", "--force", str(place))


def top_of(where: Path) -> Path:
    """The folder of the repository around `where`."""
    return Path(_asked(where, "rev-parse", "--show-toplevel") or where)


def relative(script: str, where: Path) -> str:
    """A script's path as it can be looked for in another checkout: relative to `where`, if it is given absolutely."""
    path = Path(script)
    return os.path.relpath(path.resolve(), where.resolve()) if path.is_absolute() else script


def _asked(where: Path, *question: str) -> str:
    answer = _git(where, *question)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _git(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSuchRevision(f"git could not be run ({error}); --base needs it.") from error
