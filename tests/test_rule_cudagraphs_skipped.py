"""COM004: CUDA graphs were asked for, and some of the work was left out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.compile_facts import CompileFacts
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.rules.cudagraphs_skipped import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

US = 1000
SKIPPED = CompileFacts(cudagraph_skips=3, cudagraph_skip_reasons=("skipping cudagraphs due to cpu device (arg0).",))


def launching() -> TraceBuilder:
    """One step in which ten kernels of 10 us are launched 100 us apart."""
    built = TraceBuilder().step(0, 0, 1000 * US)
    for place in range(10):
        built.launch("k", (place * 100 * US, 5 * US), ((place * 100 + 10) * US, 10 * US))
    return built


def test_skips_are_told_with_their_reason_and_worth_the_gaps_between_launches(tmp_path: Path) -> None:
    trace = observed(launching().trace(tmp_path), device="cuda", compiles=SKIPPED)

    [finding] = examine(trace, Found((RULE,))).outcomes[0].findings

    assert finding.message == (
        "torch.compile left work out of its CUDA graphs 3 times: skipping cudagraphs due to cpu device (arg0)."
    )
    assert finding.stake.share is not None
    assert finding.stake.share > 0.5


def test_without_launches_in_the_trace_only_a_trial_can_tell(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000 * US).trace(tmp_path)

    [seen] = ask(RULE, observed(trace, device="cuda", compiles=SKIPPED))

    assert seen.edit is None


@pytest.mark.parametrize(("device", "compiles"), [("cpu", SKIPPED), ("cuda", CompileFacts())])
def test_a_run_on_the_cpu_or_without_skips_is_fine(tmp_path: Path, device: str, compiles: CompileFacts) -> None:
    assert ask(RULE, observed(launching().trace(tmp_path), device=device, compiles=compiles)) == []
