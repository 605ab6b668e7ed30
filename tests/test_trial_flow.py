"""Which trial is made when, what it leaves the others, and when the placebo is asked. Nothing runs: sets are faked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer import trial, trial_noise, trial_set
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.model import Trial
from profiler_doctor.analyzer.trial import TrialRequest, trials
from profiler_doctor.analyzer.trial_arm import Broken, NoTime
from profiler_doctor.analyzer.trial_block import Block, Treated
from profiler_doctor.analyzer.trial_noise import Placebo, noise_in
from profiler_doctor.analyzer.trial_program import Pace, Program
from profiler_doctor.analyzer.trial_set import BaselineBroken, Pair, PairSet

EQUAL = Treated(cold_s=0.0, equal=True, error=0.0, tolerance=1e-5, reasons=())
WRONG = Treated(cold_s=0.0, equal=False, error=0.5, tolerance=1e-5, reasons=("output differs by 5.0e-01",))
MOVED = (3.0, 4.0)
JITTER = (0.0, 0.01, -0.01, 0.02, -0.02, 0.005, -0.005, 0.015, -0.015, 0.0)
MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)

Script = Callable[[str, int, int], float | Exception]
"""Name of the fix, number of its set and of the pair → how many times as fast that pair is, or what happens."""


class Stage:
    """Takes the place of pairs of processes, and remembers which were begun."""

    def __init__(self, script: Script, answers: Mapping[int, Treated] | None = None) -> None:
        self.script = script
        self.begun: list[str] = []
        self.moved = MOVED
        """How far the weights of the treated side come."""
        self.answers = answers or {}
        """Pair of the first set from which on the answers are these."""

    def __call__(self, program: Program, label: str, fixes: Sequence[Fix], compare: bool) -> Any:
        name, pair_number = fixes[0].name, Counter[str]()
        self.begun.append(label.rpartition("-")[0])
        number = self.begun.count(self.begun[-1])
        arm = SimpleNamespace(treated=(self.answers.get(0, EQUAL),) if compare else (), moved=self.moved)

        def pair(by_ns: int) -> Pair:
            place = pair_number["made"]
            pair_number["made"] += 1
            if compare:
                arm.treated = (self.answers.get(place, arm.treated[0]),)
            found = self.script(name, number, place)
            if isinstance(found, Exception):
                raise found
            unit = 100_000_000 * (1 + JITTER[place % 10])
            return Pair(Block(10, 100_000_000, 100_000_000), Block(10, round(unit / found), round(unit / found)), True)

        def begin(by_ns: int, block_steps: int | None) -> None:
            pass

        baseline = SimpleNamespace(treated=(EQUAL,) if compare else (), moved=MOVED)
        return nullcontext(SimpleNamespace(pair=pair, begin=begin, steps=10, treated=arm, baseline=baseline))


def _fix(name: str, rank: int = 3) -> Fix:
    return Fix(name=name, doc="", cures=(name,), snippet="", changes_numbers="", rank=rank, treat=lambda root: root)  # type: ignore[arg-type, return-value]  # not called


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Trial]]]:
    program = Program(target=Target(script="x.py"), folder=tmp_path, source=StepSource(kind="module"), machine=MACHINE)

    def run(stage: Stage, *names: str) -> list[Trial]:
        for module in (trial, trial_noise):
            monkeypatch.setattr(module, "PairSet", stage)
        request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 100_000_000_000)
        return list(trials(request, [_fix(name) for name in names]))

    yield run


def test_the_placebo_is_made_once_and_only_where_something_looks_like_a_gain(tried: Any) -> None:
    nothing_won = Stage(lambda name, number, place: 0.9)
    two_won = Stage(lambda name, number, place: 1.01 if name == "do-nothing" else 1.5)
    assert [one.noise for one in tried(nothing_won, "a", "b")] == [None, None]
    assert "placebo" not in nothing_won.begun
    found = tried(two_won, "a", "b")
    assert two_won.begun.count("placebo") == 3
    assert [(one.fix, one.verdict) for one in found] == [("a", "verified"), ("b", "verified"), ("a + b", "verified")]
    assert [one.noise for one in found] == [pytest.approx(0.01, abs=0.002)] * 3


def test_a_machine_on_which_doing_nothing_shows_as_much_verifies_nothing(tried: Any) -> None:
    stage = Stage(lambda name, number, place: [1.0, 0.6, 1.1][number - 1] if name == "do-nothing" else 1.5)
    (found,) = tried(stage, "a")
    assert (found.verdict, found.noise) == ("inconclusive", pytest.approx(1 / 0.6 - 1, abs=0.02))
    assert "too noisy" in found.doubts[0]


def test_a_trial_of_the_placebo_itself_is_the_placebo_of_the_run(tried: Any) -> None:
    stage = Stage(lambda name, number, place: 1.0 if name == "do-nothing" else 1.5)
    by_name = {one.fix: one for one in tried(stage, "do-nothing", "later")}
    assert "placebo" not in stage.begun
    assert by_name["later"].noise == pytest.approx(0.0, abs=0.02)


def test_an_undecided_trial_is_gone_on_with_after_the_others_and_then_decided(tried: Any) -> None:
    def script(name: str, number: int, place: int) -> float | Exception:
        if name == "cut" and len(stage.begun) == 2:
            return NoTime("the treated program had given no sign of progress for 9 s")
        return {"loses": 0.9, "cut": 1.5, "do-nothing": 1.0}[name]

    stage = Stage(script)
    found = tried(stage, "cut", "loses")
    assert [(one.fix, one.verdict) for one in found] == [("loses", "rejected"), ("cut", "verified")]
    assert [one for one in stage.begun if one != "placebo"] == ["cut", "cut", "loses", "loses", "cut", "cut"]


def test_a_trial_that_stays_undecided_says_what_it_waited_for(tried: Any) -> None:
    stage = Stage(lambda name, number, place: NoTime("the treated program had given no sign of progress for 9 s"))
    (found,) = tried(stage, "hangs")
    assert found.verdict == "inconclusive"
    assert found.reason.endswith("; the treated program had given no sign of progress for 9 s")


def test_answers_that_turn_out_wrong_while_time_is_taken_end_the_trial(tried: Any) -> None:
    stage = Stage(lambda name, number, place: 1.5, answers={4: WRONG})
    (found,) = tried(stage, "wrong-for-other-shapes")
    assert (found.verdict, found.outputs_equal) == ("rejected", False)
    assert stage.begun == ["wrong-for-other-shapes"]


@pytest.mark.parametrize(
    ("failure", "verdict", "reason"),
    [
        (Broken("it took 9.1 GB of memory, more than the machine can spare"), "rejected", "the treated program failed"),
        (BaselineBroken("the untreated program failed: x"), "inconclusive", "the untreated program failed: x"),
    ],
)
def test_a_trial_that_breaks_ends_with_its_reason_and_the_others_are_made(
    tried: Any, failure: Exception, verdict: str, reason: str
) -> None:
    speed: dict[str, float | Exception] = {"breaks": failure, "do-nothing": 1.0, "other": 1.5}
    stage = Stage(lambda name, number, place: speed[name])
    found = tried(stage, "breaks", "other")
    assert [(one.fix, one.verdict) for one in found] == [("breaks", verdict), ("other", "verified")]
    assert found[0].reason.startswith(reason)


def test_a_placebo_without_time_or_whose_program_breaks_leaves_the_noise_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(target=Target(script="x.py"), folder=tmp_path, source=StepSource(kind="module"), machine=MACHINE)
    late = Placebo(program, time.monotonic_ns() + 1_000_000_000)
    assert late.noise(None, 1.0) is None
    stage = Stage(lambda name, number, place: Broken("x") if (number, place) == (2, 7) else 1.1)
    monkeypatch.setattr(trial_noise, "PairSet", stage)
    noise = Placebo(program, time.monotonic_ns() + 60_000_000_000).noise(None, 1.0)
    assert noise is not None
    assert [len(medians) for medians in noise.medians.values()] == [2, 2]  # a whole set, and seven pairs of another
    assert noise_in([]) is None


def test_a_fix_that_trains_otherwise_is_rejected_and_one_that_does_so_by_rounding_is_not(tried: Any) -> None:
    stage = Stage(lambda name, number, place: 1.0 if name == "do-nothing" else 1.5)
    stage.moved = (3.0, 5.5)  # 1.5 of 6.3 apart: 24 %
    (rounding,) = tried(stage, "rounds")
    assert rounding.verdict == "verified"
    stage.moved = (6.0, 8.0)  # twice as far
    (other,) = tried(stage, "learns-faster")
    assert other.verdict == "rejected"
    assert other.reason.startswith("it trains otherwise: after the same steps the weights are 50% of their way")


@pytest.mark.parametrize(("step_ns", "turns"), [(600_000_000, 1), (200_000_000, 2)])
def test_one_turn_is_enough_to_warm_up_where_a_step_is_long(
    step_ns: int, turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Side:
        def __init__(self, program: Program, label: str, fixes: tuple[Fix, ...]) -> None:
            self.program, self.treated, self.runs = program, (), list[int]()

        def start(self, known_steps: int, pace: Pace) -> None: ...

        def arrive(self, by_ns: int) -> float:
            return 0.0

        ready = arrive

        def run(self, steps: int, settle: int, by_ns: int) -> Block:
            self.runs.append(steps)
            return Block(steps=steps, wall_ns=steps * step_ns, cpu_ns=steps * step_ns)

    monkeypatch.setattr(trial_set, "Arm", Side)
    program = Program(target=Target(script="x.py"), folder=tmp_path, source=StepSource(kind="module"), machine=MACHINE)
    pairs = PairSet(program, "set", (), compare=False)
    pairs.begin(time.monotonic_ns() + 10**12)
    assert pairs.baseline.runs == pairs.treated.runs == [1] * turns  # type: ignore[attr-defined]
