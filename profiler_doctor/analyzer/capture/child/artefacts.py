"""Compiled files made for another device: what torch says when it loads one, and what ONNX Runtime leaves behind.

Nothing is patched and no device is asked. torch compares the device that a package was built on with this one and warns
of each difference: we read along. TensorRT's engines carry the architecture in their names: one that was there before
the script, and one of the same graph but another architecture that was written since, are told.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import own_place
from profiler_doctor.analyzer.capture.child.replacing import Undo
from profiler_doctor.analyzer.facts import ArtefactFacts

LOADER = "torch.export.pt2_archive._package"
"""The logger by which torch warns."""
MEANS = {
    "AOTI_CPU_ISA": "instruction set",
    "AOTI_COMPUTE_CAPABILITY": "compute capability",
    "AOTI_MACHINE": "machine",
    "AOTI_PLATFORM": "platform",
}
TENSORRT = "TensorrtExecutionProvider"
ENGINE = re.compile(r"(?P<graph>.+)_sm(?P<architecture>\d+)\.engine")
"""`…_sm80+.engine`, which is made for later GPUs too, is none of these."""
FRAMES_UP = 8
MOST = 8


class Artefacts:
    """Reads along from `install` on; `facts` is what is known so far."""

    def __init__(self) -> None:
        self._began_s = time.time()
        self._loaded: dict[tuple[str, str], ArtefactFacts] = {}

    def install(self) -> Undo:
        """Returns what stops the reading along."""
        logger = logging.getLogger(LOADER)
        logger.addFilter(self._heard)
        return lambda: logger.removeFilter(self._heard)

    def facts(self) -> tuple[ArtefactFacts, ...]:
        """Packages that were loaded, and engines that were built anew."""
        engines: list[ArtefactFacts] = []
        with contextlib.suppress(Exception):  # sessions and folders are the script's own affair
            engines += _engines(self._began_s)
        return (*self._loaded.values(), *engines)[:MOST]

    def _heard(self, record: logging.LogRecord) -> bool:
        with contextlib.suppress(Exception):  # a later torch may say it in other words
            self._note(record.args, sys._getframe(1))
        return True

    def _note(self, told: Any, frame: FrameType) -> None:
        if not (isinstance(told, tuple) and len(told) == 3 and told[0] in MEANS):
            return
        what, here, built_for = MEANS[told[0]], str(told[1]), str(told[2])
        place = own_place(frame)
        path, device = _package(frame)
        known = self._loaded.get((path, str(place)))
        self._loaded[path, str(place)] = ArtefactFacts(
            kind="AOTInductor package",
            path=path,
            device=device,
            built_for={**(known.built_for if known else {}), what: built_for},
            here={**(known.here if known else {}), what: here},
            file=place[0],
            line=place[1],
        )


def _package(frame: FrameType | None) -> tuple[str, str]:
    """The path that was given to torch's loader, and the kind of device that the package names; empty: not seen."""
    path = device = ""
    for _ in range(FRAMES_UP):
        if frame is None:
            break
        held = frame.f_locals
        device = device or str((held.get("loaded_metadata") or {}).get("AOTI_DEVICE_KEY", ""))
        given = held.get("path") if frame.f_code.co_name == "load_package" else None
        path = path or (os.fspath(given) if isinstance(given, str | os.PathLike) else "")
        frame = frame.f_back
    return path, device


def _engines(began_s: float) -> Iterator[ArtefactFacts]:
    """Engines from before the script for whose graph it has built another, in the folders of its sessions."""
    for folder in _engine_folders():
        old: dict[str, dict[str, Path]] = {}
        new: dict[str, str] = {}
        for file in folder.glob("*.engine"):
            if told := ENGINE.fullmatch(file.name):
                if file.stat().st_mtime < began_s:
                    old.setdefault(told["graph"], {})[told["architecture"]] = file
                else:
                    new[told["graph"]] = told["architecture"]
        for graph, architecture in new.items():
            for before, file in sorted(old.get(graph, {}).items()):
                yield ArtefactFacts(
                    kind="TensorRT engine",
                    path=str(file),
                    device="cuda",
                    built_for={"compute capability": before},
                    here={"compute capability": architecture},
                )


def _engine_folders() -> set[Path]:
    """Where the script's living sessions of ONNX Runtime keep TensorRT's engines."""
    runtime = sys.modules.get("onnxruntime")
    if runtime is None or TENSORRT not in runtime.get_available_providers():
        return set()
    sessions = [thing for thing in gc.get_objects() if issubclass(type(thing), runtime.InferenceSession)]
    told = [session.get_provider_options().get(TENSORRT, {}) for session in sessions]
    caching = [options for options in told if str(options.get("trt_engine_cache_enable")).lower() in ("1", "true")]
    return {Path(options.get("trt_engine_cache_path") or ".") for options in caching}
