"""What must fire, and what must not, on public traces: the numbers are those that plain scripts counted in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import Examination, examine
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.model import RuleOutcome
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import read

MUST_FIRE: list[tuple[str, str, Mapping[str, float]]] = [
    ("tracelens_b200_vllm_eager", "LCH001", {"busy_share": 0.13726, "host_share": 0.858}),
    ("tracelens_b200_vllm_eager", "LCH002", {"kernels": 768}),
    ("tracelens_h100_vit", "LCH001", {"busy_share": 0.162}),
    ("tracelens_h100_vit", "LCH002", {"kernels": 154}),
    ("tracelens_h100_bert_small", "LCH001", {"busy_share": 0.0792}),
    ("tracelens_mi300_vit", "LCH001", {"busy_share": 0.2499}),
    ("tracelens_mi300_bert_small", "LCH001", {"busy_share": 0.1118}),
    ("hta_a100_nccl_resnet", "LCH001", {"busy_share": 0.23844}),
    ("hta_a100_nccl_resnet", "LCH003", {"steps": 3, "kernels": 900}),
    ("hta_a100_nccl_resnet", "DST001", {"collectives": 14, "exposed_ns": 29_395_706}),
    ("param_dlrm_8ranks/rank1", "DST001", {"collectives": 8, "exposed_ns": 11_056_000}),
    ("param_dlrm_8ranks/rank1", "CPY001", {"copies": 8, "waited_ns": 6_616_000}),
    ("hta_mi250_minitoy", "CPY004", {"copies": 2, "copy_ns": 38_161}),
    ("hta_rec_rank0", "DST001", {"collectives": 10, "exposed_ns": 336_983_000}),
    ("hta_rec_rank1", "DST001", {"collectives": 10, "exposed_ns": 303_523_000}),
    ("hta_a100_nccl_resnet", "LAY001", {"transforms": 633, "time_ns": 15_120_910}),
    ("tracelens_h100_qwen05b", "FUS002", {"chains": 49}),
    ("tracelens_h100_qwen05b", "FUS003", {"chains": 48}),
    ("tracelens_h100_qwen05b", "FUS004", {"chains": 24}),
    ("tracelens_h100_qwen05b", "PRC003", {"casts": 100, "casts_in_norms": 98}),
    ("tracelens_h100_qwen05b", "ATT003", {"copies": 96, "time_ns": 2_766_267}),
]
"""Trace, code, and numbers of the evidence that hold within 1 %. At least 1 % of the step is at stake in each."""
MUST_NOTE: list[tuple[str, str, int | None]] = [
    ("tracelens_b200_vllm_eager", "MSR005", 9),
    ("tracelens_h100_qwen05b", "MSR002", 509),
    ("tracelens_mi300_sglang_decode", "MSR003", None),
    ("hta_a100_alexnet", "MSR001", None),
]
"""Trace, health code, number of events."""
MUST_BE_SILENT: list[tuple[str, str]] = [
    ("tracelens_b200_vllm_eager", "SYN LAY CPY PRC DST MEM KRN FUS ATT OPT PYB003 PYB004"),
    ("tracelens_h100_vit", "LAY ATT PRC SYN CPY KRN FUS OPT PYB003 PYB004"),
    ("tracelens_h100_bert_small", "ATT LAY SYN CPY PRC FUS OPT PYB003 PYB004"),
    ("tracelens_h100_qwen05b", "LCH ATT001 ATT002 LAY KRN PRC001 PRC002 SYN CPY"),
    ("tracelens_mi300_vit", "CPY ATT SYN LAY KRN PRC FUS"),
    ("tracelens_mi300_bert_small", "CPY ATT SYN LAY KRN PRC FUS"),
    ("tracelens_mi300_sglang_decode", "LCH FUS CPY"),
    ("hta_a100_nccl_resnet", "PRC FUS ATT CPY SYN KRN OPT001 OPT003 PYB003 PYB004"),
    ("hta_a100_alexnet", "LCH PRC"),
    ("hta_rec_rank0", "LAY ATT LCH"),
    ("hta_rec_rank1", "LAY ATT LCH"),
]
"""Trace, and families that find nothing of 1 % of the step or more."""
WITHOUT_A_GPU = ["hta_cpu_only", "hta_cpu_rank", "hta_a100_cupti_ranges", "particle_no_gpu_activity"]
GPU_FAMILIES = (
    *(
        "LCH",
        "SYN002",
        "SYN003",
        "SYN004",
        "SYN005",
        "MEM001",
        "MEM002",
        "CPY",
        "LAY001",
        "LAY002",
        "PRC001",
        "PRC002",
        "OPT001",
        "PYB003",
    ),
    *("KRN", "DST", "MSR002", "MSR003"),
)


@dataclass(frozen=True)
class Told:
    """What all rules said of one trace."""

    examined: Examination

    def outcome(self, code: str) -> RuleOutcome:
        return next(outcome for outcome in self.examined.outcomes if outcome.code == code)

    def found(self) -> set[str]:
        return {outcome.code for outcome in self.examined.outcomes if outcome.status == "found"}

    def notes(self) -> dict[str, int]:
        return {note.code: note.events for note in self.examined.health}


@cache
def told(file: Path) -> Told:
    return Told(examine(read(file), find("profiler_doctor.rules", Rule)))


def trace_file(shared: Path, name: str) -> Path:
    return shared / "traces" / f"{name}.json.gz"


@pytest.mark.parametrize(("name", "code", "numbers"), MUST_FIRE, ids=lambda value: str(value)[:40])
def test_what_ails_a_real_program_is_found(shared: Path, name: str, code: str, numbers: Mapping[str, float]) -> None:
    outcome = told(trace_file(shared, name)).outcome(code)

    assert outcome.status == "found", outcome.reason
    evidence = outcome.findings[0].evidence
    assert {key: evidence[key] for key in numbers} == pytest.approx(dict(numbers), rel=0.01)


@pytest.mark.parametrize(("name", "code", "events"), MUST_NOTE)
def test_what_ails_a_recording_is_noted(shared: Path, name: str, code: str, events: int | None) -> None:
    notes = told(trace_file(shared, name)).notes()

    assert code in notes
    assert events is None or notes[code] == events


@pytest.mark.parametrize(("name", "families"), MUST_BE_SILENT)
def test_what_does_not_ail_a_real_program_is_not_found(shared: Path, name: str, families: str) -> None:
    found = told(trace_file(shared, name)).found()

    assert {code for code in found if code.startswith(tuple(families.split()))} == set()


@pytest.mark.parametrize("name", WITHOUT_A_GPU)
def test_no_gpu_rule_speaks_where_no_gpu_work_was_recorded(shared: Path, name: str) -> None:
    said = told(trace_file(shared, name))
    spoken = {outcome.code for outcome in said.examined.outcomes if outcome.findings} | set(said.notes())

    assert {code for code in spoken if code.startswith(GPU_FAMILIES)} == set()


def test_a_vocabulary_that_is_no_multiple_of_8_is_told_once(shared: Path) -> None:
    outcome = told(trace_file(shared, "tracelens_h100_bert_small")).outcome("KRN001")

    assert outcome.status == "found"
    [product] = outcome.findings
    assert (product.evidence["columns"], product.evidence["calls"], product.stake.share) == (30522, 1, None)


def test_a_cold_trace_is_not_judged_as_a_steady_state(shared: Path) -> None:
    alexnet = told(trace_file(shared, "hta_a100_alexnet"))

    note = next(note for note in alexnet.examined.health if note.code == "MSR001")
    assert "40 allocations, 8.51 s" in note.message
    assert alexnet.outcome("LCH001").status == "skipped"
    assert "MSR001" in alexnet.outcome("LCH001").reason


def test_the_upload_of_a_model_is_listed_as_one_off_and_does_not_matter(shared: Path) -> None:
    outcome = told(trace_file(shared, "hta_a100_alexnet")).outcome("CPY001")

    assert outcome.status == "clean"
    [upload] = outcome.findings
    assert (upload.evidence["copies"], upload.evidence["bytes"], upload.evidence["time_ns"]) == (
        16,
        244_403_360,
        55_503_000,
    )
    assert upload.evidence["one_off"] is True


def test_work_that_waits_behind_unrecorded_work_is_measured(shared: Path) -> None:
    decode = told(trace_file(shared, "tracelens_mi300_sglang_decode"))

    note = next(note for note in decode.examined.health if note.code == "MSR003")
    assert "463 ms" in note.message
    assert decode.outcome("LCH001").status == "skipped"


@pytest.mark.parametrize(
    "name",
    [
        "tracelens_b200_vllm_eager",
        "tracelens_h100_vit",
        "tracelens_h100_qwen05b",
        "hta_a100_nccl_resnet",
        "hta_gp100_gpu_annotation",
        "param_dlrm_8ranks/rank1",
        "param_dlrm_8ranks/rank2",
    ],
)
def test_what_two_findings_share_is_counted_once(shared: Path, name: str) -> None:
    examined = told(trace_file(shared, name)).examined
    shares = [
        finding.stake.share
        for outcome in examined.outcomes
        if outcome.status == "found"
        for finding in outcome.findings
        if finding.stake.share is not None
    ]

    assert examined.joint.share is not None
    assert max(shares) <= examined.joint.share + 1e-9
    assert examined.joint.share < min(1.0, sum(shares) + 1e-9)
