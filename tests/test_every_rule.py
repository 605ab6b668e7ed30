"""What holds for every rule, whoever wrote it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import EVERY_INTERVAL, examine
from profiler_doctor.analyzer.kinds import Has, Rule
from profiler_doctor.analyzer.plugins import Found, find
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace, empty_trace
from tests.conftest import ROOT
from tests.trace_builder import TraceBuilder

FOUND = find("profiler_doctor.rules", Rule)
RULES = sorted(FOUND.items, key=lambda rule: rule.code)
HEADINGS = ["What it finds", "Why it costs", "What to do", "When not to", "Source"]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def healthy_gpu_run(folder: Path) -> Trace:
    """Five steps of 1 ms; in each, pinned input, twelve kernels of 75 µs close together, and a log line at the end."""
    built = TraceBuilder(devices=[{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}])
    pinned = "Memcpy HtoD (Pinned -> Device)"
    for number in range(5):
        start = number * 1_000_000
        built.step(number, start, 1_000_000)
        built.launch(pinned, (start + 1_000, 4_000), (start + 8_000, 40_000), bytes=2_000_000, stream=20)
        for place in range(12):
            at = start + 10_000 + place * 10_000
            shapes = {"Input Dims": [[64, 512], [512, 512]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
            built.op("aten::mm", at, 9_000, **shapes)
            built.launch("gemm_bf16_tensorop", (at + 3_000, 4_000), (start + 20_000 + place * 76_000, 75_000))
        built.call("cudaDeviceSynchronize", start + 940_000, 20_000)
    return built.trace(folder)


def healthy_cpu_run(folder: Path) -> Trace:
    """Five steps of 1 ms of linear algebra in float32 on the CPU."""
    built = TraceBuilder()
    for number in range(5):
        start = number * 1_000_000
        built.step(number, start, 1_000_000)
        for place in range(9):
            shapes = {"Input Dims": [[64, 512], [512, 512]], "Input type": ["float", "float"]}
            built.op("aten::mm", start + 10_000 + place * 105_000, 100_000, **shapes)
    return built.trace(folder)


def test_every_file_loads() -> None:
    assert FOUND.broken == ()


def test_codes_and_names_are_each_used_once() -> None:
    codes, names = [rule.code for rule in RULES], [rule.name for rule in RULES]

    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)


@each_rule
def test_a_code_is_a_family_and_a_number_and_a_name_is_its_file(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.code)
    assert (ROOT / "profiler_doctor" / "rules" / f"{rule.name.replace('-', '_')}.py").is_file()


@each_rule
def test_it_has_a_test_of_its_own(rule: Rule) -> None:
    assert (ROOT / "tests" / f"test_rule_{rule.name.replace('-', '_')}.py").is_file()


@each_rule
def test_its_docs_are_a_sentence_and_the_fixed_headings(rule: Rule) -> None:
    lines = rule.doc.strip().splitlines()

    assert rule.title.endswith(".")
    assert [line for line in lines if line in HEADINGS] == HEADINGS
    told = dict(zip(HEADINGS, re.split("|".join(HEADINGS), rule.doc)[1:], strict=True))
    assert all(len(text.split()) >= 3 for text in told.values())


@each_rule
def test_every_threshold_has_a_unit_and_a_reason(rule: Rule) -> None:
    for name, threshold in rule.thresholds.items():
        assert threshold.unit, name
        assert len(threshold.reason.split()) >= 3, name


@each_rule
def test_only_health_rules_veto_and_what_they_veto_exists(rule: Rule) -> None:
    known = {other.code for other in RULES} | {other.code[:3] for other in RULES}

    assert not rule.vetoes or rule.health
    assert set(rule.vetoes) <= known


@each_rule
@pytest.mark.parametrize("run", [healthy_gpu_run, healthy_cpu_run], ids=["gpu", "cpu"])
def test_it_is_silent_on_a_healthy_run(rule: Rule, run: object, tmp_path: Path) -> None:
    trace = run(tmp_path)  # type: ignore[operator]

    examined = examine(trace, Found((rule,)))

    assert [note.message for note in examined.health] == []
    assert {outcome.status for outcome in examined.outcomes} <= {"clean", "skipped"}
    assert [finding.message for outcome in examined.outcomes for finding in outcome.findings] == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.needs], ids=lambda rule: rule.code)
def test_it_skips_with_a_reason_where_a_need_is_missing(rule: Rule) -> None:
    [outcome] = examine(empty_trace("nothing"), Found((rule,))).outcomes

    assert outcome.status == "skipped"
    assert all(need.value in outcome.reason for need in rule.needs)


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.needs], ids=lambda rule: rule.code)
def test_it_says_nothing_of_an_empty_trace(rule: Rule) -> None:
    limits = {name: threshold.value for name, threshold in rule.thresholds.items()}

    assert list(rule.find(empty_trace("nothing"), limits)) == []


def test_no_rule_crashes_on_any_real_trace(shared: Path) -> None:
    folder = shared / "traces"
    for file in [*sorted(folder.glob("*.json.gz")), *sorted((folder / "param_dlrm_8ranks").iterdir())]:
        examined = examine(read(file), FOUND)

        crashed = {outcome.code: outcome.reason for outcome in examined.outcomes if outcome.status == "crashed"}
        assert crashed == {}, file.name


def test_every_finding_can_be_looked_up(shared: Path) -> None:
    for name in ("tracelens_h100_vit", "hta_a100_nccl_resnet", "hta_a100_alexnet"):
        examined = examine(read(shared / "traces" / f"{name}.json.gz"), FOUND)
        findings = [finding for outcome in examined.outcomes for finding in outcome.findings]

        assert findings, name
        for finding in findings:
            assert finding.message.endswith(".")
            assert finding.where.op or finding.where.file or finding.where.module, finding.message
            assert 1 <= len(finding.evidence["intervals_ns"]) <= EVERY_INTERVAL, finding.message  # type: ignore[arg-type]


def test_no_rule_needs_a_gpu_and_a_run_that_kept_to_the_cpu() -> None:
    for rule in RULES:
        assert not {Has.CPU_ONLY, Has.KERNELS} <= set(rule.needs), rule.code
