"""Our own engines in the traps: each ends with other answers, unsuited, or as right as the model itself."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.capture.child.treat import Treatment  # noqa: E402
from profiler_doctor.analyzer.kinds import Fix, Machine, Root  # noqa: E402
from profiler_doctor.fixes.onnx_runtime import FIX as ONNX  # noqa: E402
from profiler_doctor.fixes.torchscript import FIX as TRACE  # noqa: E402
from profiler_doctor.fixes.torchscript_optimized import FIX as PREPARED  # noqa: E402
from tests import test_traps as traps  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
BATCHES = [torch.rand(3, 4, generator=torch.Generator().manual_seed(seed)) + 0.1 for seed in range(6)]


def _outcome(fix: Fix, module: Any, batches: list[Any]) -> Any:
    """Whether the answers were found equal; a sentence where the fix does not suit."""
    said: list[dict[str, Any]] = []
    treatment = Treatment(torch, (fix,), MACHINE, lambda what, **more: said.append({"say": what, **more}))
    call = treatment.of(Root(module, (batches[0],), {}, module._call_impl), frozenset({0, 1, 4}))
    for batch in batches:
        call(batch.clone())
    treatment.close()
    return treatment.unsuitable[0] if treatment.unsuitable else said[-1]["comparison"]["equal"]


CAUGHT = [
    traps.Branches, traps.Counts, traps.CountsInABuffer, traps.WritesIntoItsInput, traps.TakesAnItem,
    traps.GoesThroughNumpy, traps.Prints,
]  # fmt: skip


@pytest.mark.parametrize("fix", [TRACE, PREPARED], ids=lambda fix: fix.name)
@pytest.mark.parametrize("kind", CAUGHT, ids=lambda kind: kind.__name__)
def test_a_trace_that_is_wrong_is_never_found_equal(fix: Fix, kind: type[Any]) -> None:
    model = kind().eval()
    if kind is traps.WritesIntoItsInput:  # a trace writes as the model does
        assert _outcome(fix, model, BATCHES) is True
    else:
        assert _outcome(fix, model, BATCHES) is False


@pytest.mark.parametrize("fix", [TRACE, PREPARED], ids=lambda fix: fix.name)
def test_a_loop_over_a_length_is_right_at_each_length(fix: Fix) -> None:
    batches = [torch.rand(rows, 4) for rows in (3, 3, 5, 2, 3, 5)]
    assert _outcome(fix, traps.Loops().eval(), batches) is True


@pytest.mark.parametrize("kind", CAUGHT, ids=lambda kind: kind.__name__)
def test_onnx_runtime_is_refused_or_rejected_where_it_would_be_wrong(kind: type[Any]) -> None:
    pytest.importorskip("onnxruntime")
    outcome = _outcome(ONNX, kind().eval(), BATCHES)
    if kind is traps.Branches:
        assert "cannot be exported to ONNX" in outcome
    else:
        assert outcome is not True or kind in (traps.TakesAnItem, traps.GoesThroughNumpy)  # exported as they are
