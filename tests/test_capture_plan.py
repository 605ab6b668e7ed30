"""What the child is told, in words it can read."""

from __future__ import annotations

import json

from profiler_doctor.analyzer.capture.plan import Plan, StepSource
from profiler_doctor.analyzer.kinds import Machine


def test_a_plan_arrives_as_it_was_sent() -> None:
    machine = Machine(
        device="cpu",
        torch="2.13.0",
        cpu_flags=frozenset({"avx2", "fma"}),
        cpus=2,
        threads=1,
        has_root=True,
        training=False,
        input_ranks=frozenset({2, 4}),
    )
    source = StepSource(kind="module", pattern=("0|eval|2x3", "1|eval|2x3"), detail=2, words="calls of A, B")
    plan = Plan(
        mode="trial",
        folder="/f",
        source=source,
        machine=machine,
        fixes=("compile",),
        pipes={"turn": 7},
        options={"n": 3},
    )
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_is_one_line() -> None:
    text = Plan(mode="observe", folder="/a\nb").to_json()
    assert "\n" not in text
    assert json.loads(text)["folder"] == "/a\nb"
