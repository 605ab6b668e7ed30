"""LAY002: convolutions in half precision on NCHW tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.half_conv_in_nchw import RULE
from profiler_doctor.rules.nchw_convolution import RULE as OTHER_TYPES
from tests.asking import ask
from tests.called import BF16, H100
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

MI300 = {"id": 0, "name": "AMD Instinct MI300X"}
V100 = {**H100, "name": "Tesla V100", "computeMajor": 7}
NHWC = [16 * 8 * 8, 1, 8 * 16, 16]


def convolution(folder: Path, kind: str = "c10::Half", **changes: Any) -> Trace:
    """A kernel of 900 µs and a convolution of `conv_ns` (100 µs) over 8×8 pixels, as many channels out as in."""
    channels, groups, side = changes.get("channels", 16), changes.get("groups", 1), changes.get("side", 8)
    weight = ([channels, channels // groups, 3, 3], kind)
    image = ([2, channels, side, side], kind)
    built = TraceBuilder(devices=[changes.get("device", H100)]).step(1, 0, 1_100_000)
    built.op("aten::cumsum", 1_000, 8_000).launch("scan", (2_000, 2_000), (10_000, 900_000))
    built.op("aten::cudnn_convolution", 20_000, 9_000, **arguments(image, weight, strides=changes.get("strides")))
    built.launch("conv", (22_000, 2_000), (910_000, changes.get("conv_ns", 100_000)))
    return built.trace(folder)


@pytest.mark.parametrize(("kind", "device"), [("c10::Half", V100), (BF16, H100), ("c10::Half", MI300), (BF16, MI300)])
def test_halves_in_nchw_are_found_on_matrix_units(tmp_path: Path, kind: str, device: dict[str, Any]) -> None:
    trace = convolution(tmp_path, kind, device=device)

    [seen] = ask(RULE, trace)

    assert seen.evidence["share"] == pytest.approx(0.1)
    assert "take 10% of the GPU's work" in seen.message
    assert seen.edit is None
    assert ask(OTHER_TYPES, trace) == []  # nothing is told twice


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "float"},
        {"kind": BF16, "device": V100},
        {"device": {**H100, "computeMajor": 6}},
        {"device": {**MI300, "name": "AMD Radeon RX 7900"}},
        {"groups": 16},
        {"channels": 3},
        {"side": 1},
        {"strides": [NHWC]},
        {"conv_ns": 99_000},
    ],
    ids=str,
)
def test_it_is_silent_where_the_layout_does_not_matter_or_fits(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert ask(RULE, convolution(tmp_path, **changes)) == []
