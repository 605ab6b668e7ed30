"""Is a trial ever fooled by a fix that does nothing? Whole trials, and many more resampled from what they recorded.

    python benchmarks/a_a.py --out recorded            20 trials end to end (about 15 minutes), then 500 resampled
    python benchmarks/a_a.py --recorded recorded       resample again from an earlier run

Prints how often a verdict was given, per clock, and ends with status 1 if any trial was verified.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Machine
from profiler_doctor.analyzer.statistics import Floats
from profiler_doctor.analyzer.trial import TrialRequest, trials
from profiler_doctor.analyzer.trial_arm import Program
from profiler_doctor.fixes.do_nothing import FIX

SCRIPTS = {
    "many-small-ops": "model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(60)])\nx = torch.randn(4, 32)",
    "convolutions": "model = nn.Sequential(*[nn.Conv2d(16, 16, 3) for _ in range(4)])\nx = torch.randn(4, 16, 48, 48)",
    "attention": "model = nn.TransformerEncoderLayer(128, 4, batch_first=True)\nx = torch.randn(4, 64, 128)",
    "large-products": "model = nn.Sequential(*[nn.Linear(768, 768) for _ in range(4)])\nx = torch.randn(128, 768)",
}
FRAME = (
    "import torch\nfrom torch import nn\ntorch.set_num_threads(1)\n{model}\nmodel.eval()\nwhile True:\n    model(x)\n"
)
MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
CLOCKS = {"cpu": "cpu_ns", "wall": "wall_ns"}
RUN = 8
"""Pairs drawn together when a set is resampled, so that what is alike in time stays together."""


def main() -> int:
    asked = _arguments()
    if asked.recorded is None:
        folder = asked.out or Path(tempfile.mkdtemp(prefix="a-a-"))
        fooled = _whole_trials(asked.trials, asked.budget, folder)
    else:
        folder, fooled = asked.recorded, 0
    for clock in CLOCKS:
        sets = _recorded(folder, clock)
        if len(sets) >= statistics.SETS:
            fooled += _resampled(sets, clock, asked.resampled)
    print("never fooled" if not fooled else f"FOOLED {fooled} times")
    return int(fooled > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--resampled", type=int, default=500)
    parser.add_argument("--budget", type=float, default=45.0, help="seconds for each whole trial")
    parser.add_argument("--out", type=Path, help="keep what is recorded here")
    parser.add_argument("--recorded", type=Path, help="resample from an earlier --out")
    return parser.parse_args()


def _whole_trials(count: int, budget_s: float, folder: Path) -> int:
    verdicts: Counter[str] = Counter()
    for number in range(count):
        name = list(SCRIPTS)[number % len(SCRIPTS)]
        place = folder / f"{number:02d}-{name}"
        place.mkdir(parents=True)
        script = place / "script.py"
        script.write_text(FRAME.format(model=SCRIPTS[name]), encoding="utf-8")
        source = StepSource(kind="module", words="calls")
        program = Program(target=Target(script=str(script)), folder=place, source=source, machine=MACHINE)
        deadline_ns = time.monotonic_ns() + int(budget_s * 1e9)
        (trial,) = trials(TrialRequest(program=program, deadline_ns=deadline_ns, budget_s=budget_s), [FIX])
        verdicts[trial.verdict] += 1
        print(f"{number + 1:3d}/{count} {name:15s} {trial.verdict:13s} {trial.reason}", flush=True)
    print(f"whole trials: {dict(verdicts)}")
    return verdicts["verified"]


def _recorded(folder: Path, clock: str) -> list[Floats]:
    """The log ratios of every set that was recorded, on one clock."""
    return [ratios for path in sorted(folder.glob("*/do-nothing.json")) for ratios in _sets_in(path, CLOCKS[clock])]


def _sets_in(path: Path, key: str) -> Iterator[Floats]:
    for pairs in json.loads(path.read_text(encoding="utf-8"))["sets"]:
        before = [pair["baseline"][key] for pair in pairs]
        ratios = statistics.log_ratios(before, [pair["treated"][key] for pair in pairs])
        if ratios.size >= min(statistics.LOOKS):
            yield ratios


def _resampled(sets: list[Floats], clock: str, count: int) -> int:
    with ProcessPoolExecutor(max_workers=2) as pool:
        found = Counter(pool.map(partial(_one_resampled, sets), range(count), chunksize=10))
    print(f"{count} trials resampled from {len(sets)} sets, {clock} time: {dict(found)}", flush=True)
    return found["faster"]


def _one_resampled(sets: list[Floats], seed: int) -> statistics.Direction:
    """One trial of the same code, walked as a real one is, on sets and blocks drawn from the recorded ones."""
    rng = np.random.default_rng(seed)
    most = int(rng.choice(list(statistics.LOOKS)))
    drawn = [_drawn(sets[rng.integers(len(sets))], most, rng) for _ in statistics.SHARES] * 2
    done: list[Floats] = []
    pairs = statistics.LEAST_PAIRS
    while True:
        now = drawn[len(done)][:pairs]
        move = statistics.next_move(done, now, most, max(statistics.SHARES), seed)
        if move == "next pair":
            pairs += 1
            continue
        done.append(now)
        pairs = statistics.LEAST_PAIRS
        if move == "end":
            return statistics.judge(done, seed)


def _drawn(pairs: Floats, size: int, rng: np.random.Generator) -> Floats:
    """A set of `size` pairs in runs of neighbours; which side is called treated is drawn too."""
    starts = rng.integers(pairs.size, size=-(-size // RUN))
    index = ((starts[:, None] + np.arange(RUN)) % pairs.size).reshape(-1)[:size]
    drawn: Floats = pairs[index] * rng.choice([-1.0, 1.0])
    return drawn


if __name__ == "__main__":
    raise SystemExit(main())
