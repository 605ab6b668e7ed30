"""Rules on loops that generate, train and classify, asked about programs that our own capture really watched.

Each ill script has a healed twin that does the same work. Every script is run once, for all rules asked about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules import (
    autocast_without_isa,
    branch_on_values,
    conv_bn_not_folded,
    decomposed_activation,
    decomposed_norm,
    decomposed_rotary,
    device_copies_from_layout,
    foreach_not_fused,
    gc_pause,
    graph_kept_alive,
    kv_cache_by_cat,
    python_gap,
    scalar_read,
    unsynced_timing,
    workers_respawn,
    zero_grad_writes,
)
from tests.asking import ask
from tests.watched import watched


@dataclass(frozen=True)
class Program:
    """A script with illnesses, and what it becomes once they are healed."""

    ill: str
    healed: str
    places: dict[str, int]
    """Code → the line that the finding names."""
    rules: tuple[Rule, ...]


GENERATING = Program(
    ill="""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(128))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))  # line 11: FUS002

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = Norm()
            self.given = torch.nn.Linear(128, 384)
            self.taken = torch.nn.Linear(128, 128)

        def forward(self, x, past, cos, sin):
            query, key, value = self.given(self.norm(x)).view(4, 1, 3, 8, 16).permute(2, 0, 3, 1, 4)
            key = self.turned(key, cos, sin)
            query = self.turned(query, cos, sin)
            key = torch.cat([past[0], key], dim=2)
            value = torch.cat([past[1], value], dim=2)  # line 25: ATT004
            heads = scaled_dot_product_attention(query, key, value)
            y = self.taken(heads.transpose(1, 2).reshape(4, 1, 128))
            return x + y * torch.sigmoid(y), (key, value)  # line 28: FUS004

        def turned(self, x, cos, sin):
            first, second = x.chunk(2, dim=-1)
            return x * cos + torch.cat([-second, first], dim=-1) * sin  # line 32: FUS003

    class Writer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(500, 128)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
            self.head = torch.nn.Linear(128, 500, dtype=torch.bfloat16)
            angles = torch.arange(400)[:, None] / torch.logspace(0, 4, 8)
            self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
            self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

        def forward(self, token, past):
            x, now, caches = self.embed(token), past[0][0].shape[2], []
            for layer, cache in zip(self.layers, past):
                x, cache = layer(x, cache, self.cos[now], self.sin[now])
                caches.append(cache)
            return self.penalized(self.head(x.bfloat16())), caches  # line 49: PRC006

        def penalized(self, scores):  # line 51: PYB001
            seen = {}
            for word in range(20_000):
                seen[word % 997] = seen.get(word % 997, 0) + 1
            return scores - 0.001 * len(seen)

    writer = Writer().eval()
    with torch.inference_mode():
        past = [(torch.randn(4, 8, 300, 16), torch.randn(4, 8, 300, 16)) for _ in range(2)]
        token = torch.zeros(4, 1, dtype=torch.long)
        for _ in range(40):
            scores, past = writer(token, past)
            token = scores.argmax(-1)
    """,
    healed="""
    import torch
    from torch.nn.functional import scaled_dot_product_attention, silu

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.RMSNorm(128, eps=1e-6)
            self.given = torch.nn.Linear(128, 384)
            self.taken = torch.nn.Linear(128, 128)

        def forward(self, x, past, now):
            query, key, value = self.given(self.norm(x)).view(4, 1, 3, 8, 16).permute(2, 0, 3, 1, 4)
            past[0][:, :, now : now + 1] = key
            past[1][:, :, now : now + 1] = value
            heads = scaled_dot_product_attention(query, past[0][:, :, : now + 1], past[1][:, :, : now + 1])
            return x + silu(self.taken(heads.transpose(1, 2).reshape(4, 1, 128)))

    class Writer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(500, 128)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
            self.head = torch.nn.Linear(128, 500)

        def forward(self, token, past, now):
            x = self.embed(token)
            for layer, cache in zip(self.layers, past):
                x = layer(x, cache, now)
            return self.head(x) - 0.997

    writer = Writer().eval()
    with torch.inference_mode():
        past = [(torch.randn(4, 8, 400, 16), torch.randn(4, 8, 400, 16)) for _ in range(2)]
        token = torch.zeros(4, 1, dtype=torch.long)
        for now in range(300, 340):
            token = writer(token, past, now).argmax(-1)
    """,
    places={
        "ATT004": 25,
        "PYB001": 51,
        "PRC006": 49,
        "FUS002": 11,
        "FUS003": 32,
        "FUS004": 28,
    },
    rules=(
        kv_cache_by_cat.RULE,
        python_gap.RULE,
        autocast_without_isa.RULE,
        decomposed_norm.RULE,
        decomposed_rotary.RULE,
        decomposed_activation.RULE,
    ),
)

TRAINING = Program(
    ill="""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128))

        def forward(self, x):
            return self.body(x)

    def told(step):
        return [{"step": step, "word": [number]} for number in range(1_000)]  # line 14: PYB002

    def train():
        reader = Reader()
        optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
        loader = DataLoader(TensorDataset(torch.randn(128, 128)), batch_size=64, num_workers=1)  # line 19: DAT003
        total, log = torch.zeros(()), []
        for epoch in range(28):
            for number, [batch] in enumerate(loader):
                optimizer.zero_grad(set_to_none=False)  # line 23: OPT003
                loss = (reader(batch) - batch).square().mean()
                loss.backward()
                optimizer.step()  # line 26: OPT002
                log += told(number)
                total = total + loss  # line 28: MEM003

    train()
    """,
    healed="""
    import gc

    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128))

        def forward(self, x):
            return self.body(x)

    def train():
        reader = Reader()
        optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3, fused=True)
        data = TensorDataset(torch.randn(128, 128))
        loader = DataLoader(data, batch_size=64, num_workers=1, persistent_workers=True)
        total, log = torch.zeros(()), []
        gc.freeze()
        for epoch in range(28):
            for number, [batch] in enumerate(loader):
                optimizer.zero_grad()
                loss = (reader(batch) - batch).square().mean()
                loss.backward()
                optimizer.step()
                log.append(number)
                total += loss.detach()

    train()
    """,
    places={"PYB002": 14, "MEM003": 28, "OPT003": 23, "OPT002": 26, "DAT003": 19},
    rules=(
        gc_pause.RULE,
        graph_kept_alive.RULE,
        zero_grad_writes.RULE,
        foreach_not_fused.RULE,
        workers_respawn.RULE,
    ),
)

CLASSIFYING = Program(
    ill="""
    import time

    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(16, 16, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(16)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x)))  # line 13: FUS005

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.Sequential(*(Block() for _ in range(3)))
            self.mix = torch.nn.Linear(64, 64)

        def forward(self, x, y):
            x = self.blocks(x)
            if x.mean() > 10:  # line 23: MSR008
                x = x / 2
            y = self.mix(self.mix(y).transpose(1, 2).contiguous())  # line 25: CPY006
            return x.mean() + y.mean((1, 2))

    tagger = Tagger().eval()
    images, tables = torch.randn(4, 16, 48, 48), torch.randn(64, 64, 64)
    with torch.inference_mode():
        start = time.perf_counter()  # line 31: MSR006
        for _ in range(40):
            scores = tagger(images, tables)
            best = max(score.item() for score in scores)  # line 34: SYN001
        print(time.perf_counter() - start)
    """,
    healed="""
    import time

    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            pairs = [(torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.BatchNorm2d(16)) for _ in range(3)]
            self.convs = torch.nn.ModuleList(fuse_conv_bn_eval(conv.eval(), norm.eval()) for conv, norm in pairs)
            self.mix = torch.nn.Linear(64, 64)

        def forward(self, x, y):
            for conv in self.convs:
                x = torch.relu(conv(x))
            x = torch.where(x.mean() > 10, x / 2, x)
            return x.mean() + self.mix(self.mix(y)).mean((1, 2))

    tagger = Tagger().eval()
    images, tables = torch.randn(4, 16, 48, 48), torch.randn(64, 64, 64)
    with torch.inference_mode():
        for _ in range(5):
            tagger(images, tables)
        start = time.perf_counter()
        for _ in range(35):
            best = tagger(images, tables).max().item()
        print(time.perf_counter() - start)
    """,
    places={"FUS005": 13, "CPY006": 25, "MSR008": 23, "MSR006": 31, "SYN001": 34},
    rules=(
        conv_bn_not_folded.RULE,
        device_copies_from_layout.RULE,
        branch_on_values.RULE,
        unsynced_timing.RULE,
        scalar_read.RULE,
    ),
)

PROGRAMS = pytest.mark.parametrize(
    "program", [GENERATING, TRAINING, CLASSIFYING], ids=["generating", "training", "classifying"]
)
WHATEVER_THEY_COST = {"share": 0.0, "each": 0.0, "cold_ratio": 0.0, "cold_share": 0.0, "cpu_share": 0.0}
"""On a busy machine one op may be interrupted for longer than a step takes."""


def on_an_old_cpu(trace: Trace) -> Trace:
    """As if this CPU had no arithmetic for bfloat16; most that run tests have it."""
    assert trace.facts is not None
    return trace.with_capture(replace(trace.facts, cpu_flags=("avx2", "fma")), trace.stacks)


@pytest.mark.slow
@PROGRAMS
def test_each_illness_is_found_at_its_place(tmp_path: Path, program: Program) -> None:
    trace = on_an_old_cpu(watched(tmp_path, program.ill))

    found = {rule.code: ask(rule, trace, **WHATEVER_THEY_COST) for rule in program.rules}

    assert {code for code, seen in found.items() if seen} == set(program.places)
    for code, (largest, *_) in found.items():
        assert (largest.where.file, largest.where.line) == ("reader.py", program.places[code]), code


@pytest.mark.slow
@PROGRAMS
def test_none_is_found_once_they_are_healed(tmp_path: Path, program: Program) -> None:
    examination = examine(on_an_old_cpu(watched(tmp_path, program.healed)), Found(program.rules))

    assert [(one.code, one.findings) for one in examination.outcomes if one.status not in ("clean", "skipped")] == []
    assert examination.health == ()
