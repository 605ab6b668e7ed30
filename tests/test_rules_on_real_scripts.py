"""Rules that speak of what every CPU can show, asked about programs that our own capture really watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.rules import (
    cast_churn,
    denormals,
    growth_by_cat,
    per_sample_loop,
    recomputed_constants,
)
from tests.asking import ask
from tests.watched import watched

RULES = (recomputed_constants.RULE, per_sample_loop.RULE, growth_by_cat.RULE, cast_churn.RULE, denormals.RULE)

PLACES = {"PYB004": 6, "PRC003": 14, "CPY007": 19, "PYB006": 31, "PRC007": 35}
"""Code → the line that the finding names."""

ILL = """
    import torch

    class Positions(torch.nn.Module):
        def forward(self, x):
            return x + torch.arange(60_000).cos()[: len(x), None]  # line 6: PYB004

    class Widths(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(300, 300))

        def forward(self):
            return [self.weight.to(torch.bfloat16) for _ in range(6)]  # line 14: PRC003

    def grown():
        kept = torch.zeros(1, 2_000)
        for number in range(30):
            kept = torch.cat([kept, torch.full((1, 2_000), float(number))])  # line 19: CPY007
        return kept

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = torch.nn.ModuleList(Positions() for _ in range(4))
            self.widths = Widths()
            self.layer = torch.nn.Linear(64, 64)
            self.tiny = torch.nn.Parameter(torch.full((2_000,), 1e-40))

        def forward(self, samples):
            read = [self.layer(sample) for sample in samples]  # line 31: PYB006
            kept = grown()
            for place in self.positions:
                kept = place(kept)
            return torch.cat(read).sum() + (kept * self.tiny).sum() + self.widths()[0].sum()  # line 35: PRC007

    reader = Reader().eval()
    with torch.inference_mode():
        for _ in range(60):
            reader([torch.randn(1, 64) for _ in range(40)])
"""

HEALED = """
    import torch

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.arange(60_000).cos())
            self.weight = torch.nn.Parameter(torch.randn(300, 300).to(torch.bfloat16))
            self.layer = torch.nn.Linear(64, 64)
            self.scale = torch.nn.Parameter(torch.full((2_000,), 1e-2))

        def forward(self, samples):
            read = self.layer(torch.cat(samples))
            kept = torch.stack([torch.full((2_000,), float(number)) for number in range(31)])
            for _ in range(4):
                kept = kept + self.positions[: len(kept), None]
            return read.sum() + (kept * self.scale).sum() + self.weight.sum()

    reader = Reader().eval()
    with torch.inference_mode():
        for _ in range(60):
            reader([torch.randn(1, 64) for _ in range(40)])
"""


@pytest.mark.slow
def test_each_illness_is_found_at_its_place(tmp_path: Path) -> None:
    trace = watched(tmp_path, ILL)

    # whatever their share: on a busy machine one op may be interrupted for longer than a step takes
    found = {rule.code: [seen.where for seen in ask(rule, trace, share=0.0)] for rule in RULES}

    assert {code: len(places) for code, places in found.items()} == dict.fromkeys(PLACES, 1)
    for code, [place] in found.items():
        assert (place.file, place.line) == ("reader.py", PLACES[code]), code


@pytest.mark.slow
def test_none_is_found_once_they_are_healed(tmp_path: Path) -> None:
    examination = examine(watched(tmp_path, HEALED), Found(RULES))

    assert [(outcome.code, outcome.status) for outcome in examination.outcomes if outcome.findings] == []
