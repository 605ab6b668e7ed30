"""PRC003: tensors are cast between floating-point types again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.plugins import Found, find
from profiler_doctor.analyzer.prescribe import prescribe
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.cast_churn import RULE
from profiler_doctor.rules.decomposed_norm import RULE as NORM
from tests.asking import ask
from tests.called import BF16, H100
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder


def casting(folder: Path, cast_ns: int, **changes: str) -> Trace:
    """A kernel of 900 µs, and a cast between half and float32 with a kernel of `cast_ns`, maybe inside another op."""
    source, target = changes.get("source", BF16), changes.get("target", "float")
    built = TraceBuilder(devices=[H100]).step(1, 0, 910_000 + cast_ns)
    built.op("aten::cumsum", 1_000, 8_000).launch("scan", (2_000, 2_000), (10_000, 900_000))
    if "around" in changes:
        built.op(changes["around"], 20_000, 50_000)
    built.op("aten::to", 21_000, 20_000, **arguments(([64, 1024], source), 6))
    built.op("aten::_to_copy", 22_000, 18_000, **arguments(([64, 1024], source), 6))
    built.op("aten::copy_", 23_000, 10_000, **arguments(([64, 1024], target), ([64, 1024], source), "False"))
    built.launch(changes.get("kernel", "copy_kernel"), (24_000, 2_000), (910_000, cast_ns))
    return built.call("cudaDeviceSynchronize", 80_000, 830_000 + cast_ns).trace(folder)


def test_casts_are_found_and_all_of_their_time_is_at_stake(tmp_path: Path) -> None:
    trace = casting(tmp_path, 100_000)

    [seen] = ask(RULE, trace)

    assert seen.message == "Casts between BFloat16 and float take 10.0% of the GPU's work, 1 times per step."
    assert seen.evidence["elements"] == 64 * 1024
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 100_000


@pytest.mark.parametrize(("cast_ns", "found"), [(18_000, False), (19_000, True)])
def test_casts_at_the_edges_are_no_churn(tmp_path: Path, cast_ns: int, found: bool) -> None:
    # 18 of 918 µs are 1.96 %, 19 of 919 are 2.07 %
    assert bool(ask(RULE, casting(tmp_path, cast_ns))) is found


@pytest.mark.parametrize("target", [BF16, "double", "long int"])
def test_copies_and_other_types_are_another_matter(tmp_path: Path, target: str) -> None:
    assert ask(RULE, casting(tmp_path, 100_000, target=target)) == []


@pytest.mark.parametrize(
    "around", ["autograd::engine::evaluate_function: ToCopyBackward0", "Optimizer.step#AdamW.step"]
)
def test_gradients_and_optimizers_cast_because_the_rest_does(tmp_path: Path, around: str) -> None:
    assert ask(RULE, casting(tmp_path, 100_000, around=around)) == []


def test_autocast_is_the_way_to_train_and_a_habit_in_inference(tmp_path: Path) -> None:
    trace = casting(tmp_path, 100_000, around="aten::linear", source="float", target=BF16)
    trained = observed(trace, backward_calls=100)

    [seen] = ask(RULE, trace)

    assert seen.evidence["casts_by_autocast"] == 1
    assert ask(RULE, trained) == []


def test_on_a_language_model_the_casts_are_part_of_the_norms_and_count_once(shared: Path) -> None:
    trace = read(shared / "traces" / "tracelens_h100_qwen05b.json.gz")

    [casts], [norms] = ask(RULE, trace), ask(NORM, trace)

    assert casts.evidence["casts_in_norms"] == 2 * 49
    assert casts.edit is not None
    assert norms.edit is not None
    alone, both = stake_of(trace, [norms.edit]), stake_of(trace, [norms.edit, casts.edit])
    assert alone.share is not None
    assert both.share == pytest.approx(alone.share, rel=0.01)


def test_casts_go_to_the_compiler_first_and_other_weights_come_after(tmp_path: Path) -> None:
    examined = examine(casting(tmp_path, 100_000), Found((RULE,)))

    [outcome] = prescribe(examined, find("profiler_doctor.fixes", Fix).items).outcomes

    assert outcome.findings[0].cures[:1] == ("compile",)
    assert "weights-bf16" in outcome.findings[0].cures
