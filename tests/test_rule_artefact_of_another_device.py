"""MSR009: a compiled file that was made for another device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.facts import ArtefactFacts
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.artefact_of_another_device import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def with_package(folder: Path, built_for: str, here: str, **more: Any) -> Trace:
    """A program that loaded a package built for a CPU with this instruction set, unless told otherwise."""
    what = more.pop("what", "instruction set")
    usual: dict[str, Any] = {
        "kind": "AOTInductor package",
        "path": "/models/net.pt2",
        "device": "cpu",
        "built_for": {what: built_for},
        "here": {what: here},
        "file": "serve.py",
        "line": 8,
    }
    built = TraceBuilder().step(0, 0, 1_000_000).op("aten::mm", 10, 500_000)
    return observed(built.trace(folder), artefacts=(ArtefactFacts(**(usual | more)),))


def test_a_package_for_another_instruction_set_is_told_with_the_line_that_loads_it(tmp_path: Path) -> None:
    [seen] = ask(RULE, with_package(tmp_path, "AVX2", "AVX512 AVX512_VNNI AMX_TILE"))

    assert seen.message.startswith(
        "serve.py:8 loads net.pt2, which was built for the instruction set AVX2; torch would"
    )
    assert (seen.where.file, seen.where.line) == ("serve.py", 8)
    assert (seen.evidence["built_for"], seen.evidence["here"]) == ("AVX2", "AVX512")


def test_it_is_a_note_that_vetoes_nothing(tmp_path: Path) -> None:
    examination = examine(with_package(tmp_path, "AVX2", "AVX512"), Found((RULE,)))

    [note] = examination.health
    assert (note.code, note.events) == ("MSR009", 1)
    assert examination.outcomes == ()
    assert RULE.vetoes == ()


@pytest.mark.parametrize(
    ("built_for", "here"),
    [
        ("AVX512", "AVX512 AVX512_VNNI AMX_TILE"),
        ("AVX512 AVX512_VNNI AMX_TILE", "avx512"),
        ("AVX2", "INVALID_VEC_ISA"),
        ("INVALID_VEC_ISA", "AVX512"),
        ("", "AVX512"),
        ("AVX2", ""),
    ],
    ids=[
        "older torch names fewer",
        "newer torch names more",
        "no compiler here",
        "none there",
        "not told",
        "not asked",
    ],
)
def test_what_may_be_the_same_cpu_is_no_other_device(tmp_path: Path, built_for: str, here: str) -> None:
    assert ask(RULE, with_package(tmp_path, built_for, here)) == []


def test_the_host_code_of_a_package_for_a_gpu_only_launches(tmp_path: Path) -> None:
    assert ask(RULE, with_package(tmp_path, "AVX2", "AVX512", device="cuda")) == []


def test_of_a_package_whose_device_is_not_known_nothing_is_said(tmp_path: Path) -> None:
    assert ask(RULE, with_package(tmp_path, "AVX2", "AVX512", device="")) == []


def test_a_package_for_another_gpu_is_told(tmp_path: Path) -> None:
    """Made-up facts: this half has never run on a GPU."""
    [seen] = ask(RULE, with_package(tmp_path, "86", "90", what="compute capability", device="cuda"))

    assert "built for the compute capability 8.6; torch would choose 9.0 here" in seen.message


def test_an_engine_that_was_passed_over_is_told(tmp_path: Path) -> None:
    """Made-up facts: this half has never run on a GPU."""
    engine = {"kind": "TensorRT engine", "path": "/cache/graph_0_sm86.engine", "file": "", "line": 0, "device": "cuda"}

    [seen] = ask(RULE, with_package(tmp_path, "86", "120", what="compute capability", **engine))

    assert seen.message.startswith(
        "graph_0_sm86.engine was built for compute capability 8.6, and the GPU here has 12.0"
    )
    assert (seen.where.file, seen.where.line) == (None, None)


def test_programs_without_such_files_are_silent(tmp_path: Path) -> None:
    assert ask(RULE, observed(TraceBuilder().step(0, 0, 10).trace(tmp_path))) == []
