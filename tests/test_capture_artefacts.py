"""Compiled files made for another device: what our capture sees of a script that loads or keeps one."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.child.artefacts import TENSORRT, Artefacts
from profiler_doctor.rules.artefact_of_another_device import RULE
from tests.asking import ask
from tests.watched import watched

torch = pytest.importorskip("torch")
needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="packages are built with g++")

LOADS = """
    import sys
    import torch

    net = torch._inductor.aoti_load_package({package!r})  # line 5
    layer = torch.nn.Linear(8, 8).eval()
    data = torch.randn(4, 8)
    with torch.inference_mode():
        for _ in range(25):
            layer(net(data))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear layer, built here."""
    path = tmp_path_factory.mktemp("package") / "net.pt2"
    with torch.inference_mode():
        exported = torch.export.export(torch.nn.Linear(8, 8).eval(), (torch.randn(4, 8),))
        torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    return path


def edited(package: Path, folder: Path, old: str, new: str) -> Path:
    """The same package, with other words in what it says of the device that it was built on."""
    target = folder / "edited.pt2"
    with zipfile.ZipFile(package) as source, zipfile.ZipFile(target, "w") as copy:
        for entry in source.infolist():
            text = source.read(entry)
            if entry.filename.endswith("_metadata.json"):
                assert old.encode() in text
                text = text.replace(old.encode(), new.encode())
            copy.writestr(entry, text)
    return target


@contextmanager
def reading_along() -> Iterator[Artefacts]:
    artefacts = Artefacts()
    stop = artefacts.install()
    try:
        yield artefacts
    finally:
        stop()


@pytest.mark.slow
@pytest.mark.xdist_group("package")
@needs_a_compiler
def test_a_package_that_was_built_here_is_nothing_to_tell(package: Path) -> None:
    with reading_along() as artefacts:
        torch._inductor.aoti_load_package(str(package))

    assert artefacts.facts() == ()


@pytest.mark.slow
@pytest.mark.xdist_group("package")
@needs_a_compiler
def test_a_script_that_loads_a_package_of_another_cpu_is_told_the_line(package: Path, tmp_path: Path) -> None:
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    isa = str(pick_vec_isa()).upper()
    other = edited(package, tmp_path, isa, "AVX2" if not isa.startswith("AVX2") else "AVX512")

    trace = watched(tmp_path, LOADS.format(package=str(other)), "serve.py")

    assert trace.facts is not None
    [told] = trace.facts.artefacts
    assert (told.kind, told.path, told.device) == ("AOTInductor package", str(other), "cpu")
    assert told.here == {"instruction set": isa}
    [seen] = ask(RULE, trace)
    assert (seen.where.file, seen.where.line) == ("serve.py", 5)


class Session:
    """Stands for a session of ONNX Runtime on TensorRT; no such session has run in a test."""

    def __init__(self, **options: str) -> None:
        self._options = options

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {TENSORRT: self._options, "CPUExecutionProvider": {}}


@pytest.fixture
def onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of ONNX Runtime that has TensorRT."""
    built = SimpleNamespace(InferenceSession=Session, get_available_providers=lambda: [TENSORRT])
    monkeypatch.setitem(sys.modules, "onnxruntime", built)  # type: ignore[arg-type]  # it stands for a module


def kept(folder: Path, *engines: str, age_s: float) -> None:
    for name in engines:
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age_s,) * 2)


def told(folder: Path, **options: Any) -> list[tuple[str, Any, Any]]:
    session = Session(**{"trt_engine_cache_enable": "1", "trt_engine_cache_path": str(folder), **options})
    found = Artefacts()
    found._began_s -= 60  # the script has run for a minute
    seen = found.facts()
    del session
    return [(Path(one.path).name, one.built_for, one.here) for one in seen]


@pytest.mark.usefixtures("onnxruntime")
def test_an_engine_of_another_gpu_for_which_a_new_one_was_built_is_told(tmp_path: Path) -> None:
    kept(tmp_path, "main_1_0_fp16_sm86.engine", age_s=3600)
    kept(tmp_path, "main_1_0_fp16_sm90.engine", age_s=10)

    capability = "compute capability"
    assert told(tmp_path) == [("main_1_0_fp16_sm86.engine", {capability: "86"}, {capability: "90"})]
    assert told(tmp_path, trt_engine_cache_enable="0") == []


@pytest.mark.usefixtures("onnxruntime")
@pytest.mark.parametrize(
    ("before", "since"),
    [
        (["main_sm86.engine"], []),
        ([], ["main_sm90.engine"]),
        (["main_sm86.engine", "main_sm90.engine"], []),
        (["other_sm86.engine"], ["main_sm90.engine"]),
        (["main_sm80+.engine"], ["main_sm90.engine"]),
        (["main_sm90.engine"], ["main_sm90.profile"]),
    ],
    ids=["nothing was built", "the first one", "one for each", "another graph", "for later GPUs too", "a profile"],
)
def test_other_engines_are_in_order(tmp_path: Path, before: list[str], since: list[str]) -> None:
    kept(tmp_path, *before, age_s=3600)
    kept(tmp_path, *since, age_s=10)

    assert told(tmp_path) == []


def test_without_onnx_runtime_nothing_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    kept(tmp_path, "main_sm86.engine", age_s=3600)
    kept(tmp_path, "main_sm90.engine", age_s=10)

    assert told(tmp_path) == []


def test_other_warnings_of_the_loader_pass_unheard() -> None:
    with reading_along() as artefacts:
        for arguments in ((), ("AOTI_NEW", "a", "b"), ("AOTI_CPU_ISA",), ({"a": 1},)):
            record = logging.LogRecord("x", logging.WARNING, "", 1, "told", arguments, None)
            assert artefacts._heard(record)

    assert artefacts.facts() == ()
