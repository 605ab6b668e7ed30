"""Where a built TensorRT engine is kept, and the refusal of one that was built for something else.

An engine holds code for one model, one kind of GPU, one driver, one version of TensorRT and one set of build options.
All five are in the name of its folder and written down beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from profiler_doctor.analyzer.kinds import Unsuitable

CARD = "built-for.json"
WORDS = {
    "model": "model",
    "gpu": "GPU",
    "driver": "driver",
    "tensorrt": "version of TensorRT",
    "options": "set of options",
}


@dataclass(frozen=True, kw_only=True)
class BuiltFor:
    """What an engine was, or is to be, built for."""

    model: str
    """SHA-256 of the graph with its weights."""
    gpu: str
    driver: str
    tensorrt: str
    options: str = ""

    @property
    def key(self) -> str:
        """A name that no other engine has."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]


def here(graph: bytes, options: str = "") -> BuiltFor:
    """An engine of this graph on this machine's first GPU."""
    return BuiltFor(
        model=hashlib.sha256(graph).hexdigest(),
        gpu=_gpu(),
        driver=_driver(),
        tensorrt=_installed("tensorrt"),
        options=options,
    )


def engine_folder(graph: bytes, options: str = "") -> Path:
    """The folder for this engine, there and checked. Raises Unsuitable where it holds one built for something else."""
    wanted = here(graph, options)
    folder = _root() / wanted.key
    folder.mkdir(parents=True, exist_ok=True)
    card = folder / CARD
    if card.exists():
        check(card, wanted)
    else:
        part = card.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(asdict(wanted)), encoding="utf-8")
        part.replace(card)
    return folder


def check(card: Path, wanted: BuiltFor) -> None:
    """Raise Unsuitable, in a sentence, where the engine beside `card` is for another GPU, driver, version or model."""
    found: Mapping[str, str] = json.loads(card.read_text(encoding="utf-8"))
    for name, value in asdict(wanted).items():
        if found.get(name) != value:
            other = found.get(name, "unknown")
            raise Unsuitable(
                f"the kept TensorRT engine was built for another {WORDS[name]} ({other}, and this is {value}); "
                f"delete {card.parent} to build it anew"
            )


def _root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "profiler-doctor", "tensorrt")


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"


def _driver() -> str:
    path = Path("/proc/driver/nvidia/version")
    return path.read_text(encoding="utf-8").splitlines()[0].strip() if path.exists() else "none"


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
