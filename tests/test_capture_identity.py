"""Which tensors ops take and make: told of real recordings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler_doctor.analyzer.capture.child.identity import tensor_facts
from profiler_doctor.analyzer.facts import TensorFacts
from profiler_doctor.analyzer.measures.source import source_of
from tests.identified import identified

torch = pytest.importorskip("torch")
HERE = Path(__file__).name


def seen(body: Callable[[], object]) -> tuple[list[str], TensorFacts]:
    """The names of the ops of `body` in time order, and what was seen of their tensors."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, record_shapes=True, profile_memory=True) as recording:
        kept: Any = body()
    del kept
    facts = tensor_facts(recording)
    assert facts is not None
    starts = {event.time_range.start: event.name for event in recording.events() if not event.name.startswith("[")}
    return [starts[at] for at in sorted(starts)], facts


def test_a_tensor_that_is_given_twice_is_one_and_its_views_lie_in_its_storage() -> None:
    weight = torch.randn(4, 4)

    names, facts = seen(lambda: (torch.mm(weight, weight), torch.relu(weight[1])))

    first, second = facts.given[names.index("aten::mm")]
    [row] = facts.given[names.index("aten::relu")]
    assert first == second != row
    assert facts.storages[first] == facts.storages[row]
    assert (facts.sizes[first], facts.sizes[row]) == (16, 4)


def test_what_an_op_makes_is_what_the_next_one_is_given() -> None:
    data = torch.randn(4, 4)

    names, facts = seen(lambda: torch.relu(torch.add(data, data)))

    made = facts.made[names.index("aten::add")]
    [given] = facts.given[names.index("aten::relu")]
    assert made == (facts.storages[given],)


def test_memory_that_is_used_again_is_not_the_same_storage() -> None:
    data = torch.randn(1000)

    def one_after_the_other() -> None:
        for _ in range(2):
            torch.relu(torch.add(data, data))

    names, facts = seen(one_after_the_other)

    first, second = (facts.storages[facts.given[at][0]] for at, name in enumerate(names) if name == "aten::relu")
    assert first != second


def test_tensors_in_a_list_are_given_too() -> None:
    one, two = torch.randn(2), torch.randn(3)

    names, facts = seen(lambda: (torch.cat([one, two]), torch.neg(two)))

    assert facts.given[names.index("aten::cat")][1] == facts.given[names.index("aten::neg")][0]


def test_a_profile_without_such_a_tree_tells_nothing() -> None:
    assert tensor_facts(object()) is None


@pytest.mark.parametrize("source_folder", [str(Path.cwd()), ""], ids=["source", "no source"])
def test_an_op_knows_the_line_of_the_call_that_led_to_it(tmp_path: Path, source_folder: str) -> None:
    data, layer = torch.randn(4, 4), torch.nn.Linear(4, 4)

    def called(x: Any) -> Any:
        return torch.nn.functional.relu(x)

    def step() -> Any:
        kept = called(
            layer(data),
        )
        return kept * data  # an operator is no call

    trace = identified(tmp_path, step, source_folder=source_folder)

    names = ("aten::relu", "aten::linear", "aten::mul")
    rows = [int(trace.rows_named(name.__eq__, ("cpu_op",))[-1]) for name in names]
    told = [place and (Path(place[0]).name, place[1]) for place in source_of(trace, np.array(rows))]
    first = step.__code__.co_firstlineno
    operator = first + 4 if source_folder else first
    assert told == [(HERE, called.__code__.co_firstlineno + 1), (HERE, first + 2), (HERE, operator)]
