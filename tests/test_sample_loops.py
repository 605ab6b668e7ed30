"""PYB006 over lists of tensors: which loops could be a batch, told by the tensors' identities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.rules.per_sample_loop import RULE
from tests.asking import ask
from tests.identified import identified, without_identity

torch = pytest.importorskip("torch")

SIZE, COUNT = 8, 20
Body = Callable[[], object]


def model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(), torch.nn.Linear(SIZE, SIZE))


def samples(count: int = COUNT) -> list[Any]:
    return [torch.randn(1, SIZE) for _ in range(count)]


def over_a_list() -> Body:
    net, data = model(), samples()
    return lambda: [net(sample) for sample in data]


def over_new_tensors() -> Body:
    net = model()
    return lambda: [net(torch.tensor([[1.0] * SIZE])) for _ in range(COUNT)]


def with_a_sum_of_losses() -> Body:
    net, data = model(), samples()

    def step() -> None:
        loss = torch.zeros(())
        for sample in data:
            loss = loss + net(sample * 2).square().mean()
        loss.backward()

    return step


def printing_each_loss() -> Body:
    net, data = model(), samples()
    return lambda: [net(sample).sum().item() for sample in data]


def with_convolutions() -> Body:
    net, data = torch.nn.Conv2d(3, 4, 3), [torch.randn(1, 3, 8, 8) for _ in range(COUNT)]
    return lambda: [net(image) for image in data]


@pytest.mark.parametrize(
    "loop", [over_a_list, over_new_tensors, with_a_sum_of_losses, printing_each_loss, with_convolutions]
)
def test_a_loop_over_tensors_that_need_nothing_of_each_other_is_found(tmp_path: Path, loop: Callable[[], Body]) -> None:
    trace = identified(tmp_path, loop())

    [seen] = ask(RULE, trace)

    assert seen.evidence["turns"] == COUNT
    assert "tensor of a list at a time" in seen.message
    assert seen.where.file is not None
    assert seen.where.file.endswith("test_sample_loops.py")
    assert ask(RULE, without_identity(trace)) == []


def too_few() -> Body:
    net, data = model(), samples(15)
    return lambda: [net(sample) for sample in data]


def real_batches() -> Body:
    net, data = model(), [torch.randn(2, SIZE) for _ in range(COUNT)]
    return lambda: [net(batch) for batch in data]


def different_lengths() -> Body:
    net, data = model(), [torch.randn(1, length + 1, SIZE) for length in range(COUNT)]
    return lambda: [net(sequence) for sequence in data]


def layers_after_each_other() -> Body:
    layers, sample = [torch.nn.Linear(SIZE, SIZE) for _ in range(COUNT)], torch.randn(1, SIZE)

    def step() -> None:
        x = sample
        for layer in layers:
            x = layer(x)

    return step


def shared_layer_after_itself() -> Body:
    layer, sample = torch.nn.Linear(SIZE, SIZE), torch.randn(1, SIZE)

    def step() -> None:
        x = sample
        for _ in range(COUNT):
            x = torch.relu(layer(x))

    return step


def recurrent() -> Body:
    taken, kept, data = torch.nn.Linear(SIZE, SIZE), torch.nn.Linear(SIZE, SIZE), samples()

    def step() -> None:
        state = torch.zeros(1, SIZE)
        for sample in data:
            state = torch.tanh(taken(sample) + kept(state))

    return step


def decoding() -> Body:
    table, head = torch.nn.Embedding(SIZE, SIZE), torch.nn.Linear(SIZE, SIZE)

    def step() -> None:
        token = torch.zeros(1, dtype=torch.long)
        for _ in range(COUNT):
            token = head(table(token)).argmax(-1)

    return step


def decoding_by_numbers() -> Body:
    table, head = torch.nn.Embedding(SIZE, SIZE), torch.nn.Linear(SIZE, SIZE)

    def step() -> None:
        token = 0
        for _ in range(COUNT):
            token = int(head(table(torch.tensor([token]))).argmax(-1).item())

    return step


def an_environment_that_answers() -> Body:
    policy = model()

    def step() -> None:
        state = [1.0] * SIZE
        for _ in range(COUNT):
            state = policy(torch.tensor([state])).detach().numpy()[0].tolist()

    return step


def training_on_each() -> Body:
    net, data = model(), samples()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> None:
        for sample in data:
            net(sample).sum().backward()
            optimizer.step()

    return step


@pytest.mark.parametrize(
    "loop",
    [
        too_few,
        real_batches,
        different_lengths,
        layers_after_each_other,
        shared_layer_after_itself,
        recurrent,
        decoding,
        decoding_by_numbers,
        an_environment_that_answers,
        training_on_each,
    ],
)
def test_what_is_no_batch_or_needs_the_turn_before_is_no_such_loop(tmp_path: Path, loop: Callable[[], Body]) -> None:
    assert ask(RULE, identified(tmp_path, loop())) == []
