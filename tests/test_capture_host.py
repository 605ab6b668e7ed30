"""What our capture sees of the host's work: lists of arrays, loaders, optimizers, the garbage collector."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture.captured import Captured
from tests.watched import ranges, recorded, write

SCRIPT = """
    import gc
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Subset, TensorDataset

    torch.set_num_threads(1)
    net = torch.nn.Linear(8, 4)
    decayed = [{"params": [net.weight], "weight_decay": 0.1}]
    optimizer = torch.optim.SGD(
        decayed + [{"params": [net.bias]}], lr=0.1)
    data = Subset(TensorDataset(torch.randn(64, 8)), range(32))
    rows = [np.ones(8, np.float32) for _ in range(4)]

    def batches(collate=None):
        yield from DataLoader(data, batch_size=4, collate_fn=collate)

    total, tiny = 0.0, torch.full((2048,), 1e-40)
    for epoch in range(9):
        for (batch,) in batches():
            goal = torch.tensor(rows)
            torch.tensor([1.0, 2.0])
            torch.as_tensor(np.ones(3))
            loss = (net(batch) - goal[:, :4]).square().sum()
            total = total + loss
            with torch.autograd.set_detect_anomaly(True):
                loss.backward()
            gc.collect(0)
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    folder = tmp_path_factory.mktemp("host")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return recorded(write(folder, SCRIPT))


def test_a_list_of_arrays_is_a_range_in_the_recording_and_its_line_a_fact(captured: Captured) -> None:
    [seen] = captured.facts.arrays

    assert (seen.file, seen.line, seen.call) == ("script.py", 21, "torch.tensor")
    assert (seen.arrays, seen.elements) == (4, 32)
    assert captured.trace_file is not None
    assert seen.calls >= ranges(captured.trace_file)[seen.range_name] >= 5


def test_a_loader_tells_what_it_was_told(captured: Captured) -> None:
    [loader] = captured.facts.loaders

    assert (loader.dataset, loader.samples, loader.in_memory) == ("Subset", 32, True)
    assert (loader.batch_size, loader.workers, loader.persistent, loader.own_collate) == (4, 0, False, False)
    assert (loader.file, loader.line) == ("script.py", 16)
    assert loader.iterators >= 1


def test_each_timed_step_tells_what_it_spent_in_loaders(captured: Captured) -> None:
    facts = captured.facts

    assert len(facts.step_loading_ns) == len(facts.step_ns)
    pairs = list(zip(facts.step_loading_ns, facts.step_ns, strict=True))
    assert all(0 < loading < step for loading, step in pairs)


def test_an_optimizer_tells_its_groups(captured: Captured) -> None:
    [optimizer] = captured.facts.optimizers

    assert (optimizer.name, optimizer.groups, optimizer.lone_groups, optimizer.settings) == ("SGD", 2, 2, 2)
    assert (optimizer.tensors, optimizer.parameter_bytes) == (2, 36 * 4)
    assert (optimizer.file, optimizer.line) == ("script.py", 10)
    assert not optimizer.fused


def test_the_collectors_pauses_are_heard_while_something_is_recorded(captured: Captured) -> None:
    pauses = [pause for pause in captured.facts.pauses_ns if pause[2] == 0]

    assert len(pauses) >= 5
    assert all(duration > 0 for _, duration, _ in pauses)


def test_a_graph_that_grows_is_seen_with_the_line_that_adds_to_it(captured: Captured) -> None:
    growth = captured.facts.growth

    assert growth is not None
    assert (growth.holder, growth.file, growth.line) == ("total", "script.py", 25)
    # each step hangs at least its addition, the sum and the layer's product on it
    assert growth.nodes_after - growth.nodes_before >= 3 * growth.steps
    assert growth.nodes_in_one_step is not None
    assert growth.nodes_in_one_step * growth.steps == growth.nodes_after - growth.nodes_before


def test_numbers_below_the_normal_ones_are_seen_with_what_holds_them(captured: Captured) -> None:
    [tiny] = captured.facts.subnormals

    assert (tiny.holder, tiny.elements, tiny.share) == ("tiny", 2048, 1.0)


def test_after_the_recording_the_collectors_share_is_summed_up(captured: Captured) -> None:
    assert captured.facts.pause_share is not None
    assert 0 < captured.facts.pause_share < 1


def test_a_debugging_mode_is_seen_with_the_line_under_way(captured: Captured) -> None:
    assert captured.facts.seen_at["autograd anomaly mode"] == ("script.py", 27)
    assert captured.facts.seen_at["threads"] == ("script.py", 24)
