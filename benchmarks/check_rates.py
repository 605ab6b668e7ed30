"""How often does `check` raise a false alarm, and how often does it see a true loss of time?

    python benchmarks/check_rates.py --out recorded                  all of it (hours on a busy machine, resumable)
    python benchmarks/check_rates.py --out recorded --checks 0       record sets of turns and resample alone

Whole checks from the first process to the last (`check --base HEAD`) of two samples: unchanged, and with every call of
the model made 10 % and 25 % longer in CPU time, half of them beside a busy process. Then sets of turns of the same
kinds are recorded, and checks resampled from them, each walked as a real one is. Writes docs/check-rates.md, and ends
with status 1 after any false alarm.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from profiler_doctor.analyzer import statistics  # noqa: E402
from profiler_doctor.analyzer.capture.counted import Request  # noqa: E402
from profiler_doctor.analyzer.capture.launch import Target  # noqa: E402
from profiler_doctor.analyzer.engine import Selection  # noqa: E402
from profiler_doctor.analyzer.measuring import measured  # noqa: E402
from profiler_doctor.analyzer.plugins import Found  # noqa: E402
from profiler_doctor.analyzer.race import Floats, RevisionPair, Sides, decided, losses  # noqa: E402
from profiler_doctor.analyzer.two_revisions import program  # noqa: E402
from profiler_doctor.analyzer.workloads import TIME  # noqa: E402

PAGE = ROOT / "docs" / "check-rates.md"
LINES = {
    "healthy.py": "found.append(model(texts[start : start + BATCH]))",
    "transformer.py": "logits = model(batch[:, :-1])",
}
"""Sample → the line that is made longer."""
KINDS = {"unchanged": 0, "10 % longer": 10, "25 % longer": 25}
PAIRS = max(statistics.LOOKS)
RUN = 8
"""Pairs drawn together, so that what is alike in time stays together."""
STEP_NS = 5e6
"""Of a resampled step, so that the absolute floor does not decide."""


def main() -> int:
    """Run what is missing, resample, write the page."""
    asked = _arguments()
    ended = {kind: _whole(kind, asked) for kind in KINDS}
    drawn = {kind: _resampled(kind, asked) for kind in KINDS}
    page = "\n".join(_page(ended, drawn)) + "\n"
    asked.page.write_text(page, encoding="utf-8")
    print(page)
    return int(ended["unchanged"]["1"] + drawn["unchanged"]["regression"] > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of what is recorded")
    parser.add_argument("--checks", type=int, default=20, help="whole checks of each kind")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for each of them")
    parser.add_argument("--sets", type=int, default=12, help="sets of each kind to record")
    parser.add_argument("--resampled", type=int, default=1000, help="checks of each kind to resample")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write what came out")
    return parser.parse_args()


def _whole(kind: str, asked: argparse.Namespace) -> Counter[str]:
    """Exit codes of whole checks; one that is already recorded is not run again."""
    codes: Counter[str] = Counter()
    for number in range(asked.checks):
        script = list(LINES)[number // 2 % len(LINES)]
        folder = asked.out / f"check-{KINDS[kind]}-{number:02d}"
        told = folder / "answer.json"
        if not told.exists():
            _make_project(folder, script, KINDS[kind])
            command = [sys.executable, "-m", "profiler_doctor", "check", script, "--base", "HEAD", "--format", "json"]
            with _beside_a_busy_process(number % 2 == 1):
                made = subprocess.run(
                    [*command, "-q", "--budget", str(asked.budget)], cwd=folder, stdout=subprocess.PIPE, check=False
                )
            told.write_bytes(made.stdout)
        answer = json.loads(told.read_bytes())
        codes[str(answer["verdict"]["exit_code"])] += 1
        print(f"{kind}: {number + 1}/{asked.checks} {script} {answer['workloads'][0]['time']['reason']}", flush=True)
    return codes


def _make_project(folder: Path, script: str, percent: int) -> None:
    """A repository with the sample, and the longer one in the working tree."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (ROOT / "samples" / script).read_text(encoding="utf-8")
    (folder / script).write_text(text, encoding="utf-8")
    git = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.com"]
    for words in (["init", "-q"], ["add", script], ["commit", "-qm", "the base"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    (folder / script).write_text(_longer(text, LINES[script], percent), encoding="utf-8")


def _longer(text: str, line: str, percent: int) -> str:
    """The script with this line taking so much longer, in CPU time and so on every clock."""
    if not percent:
        return text
    place = next(each for each in text.splitlines() if each.strip() == line)
    indent = place[: len(place) - len(place.lstrip())]
    longer = [
        "import time; begun = time.process_time_ns()",
        line,
        f"until = time.process_time_ns() + (time.process_time_ns() - begun) * {percent} // 100",
        "while time.process_time_ns() < until: pass",
    ]
    return text.replace(place, "\n".join(indent + each for each in longer))


def _resampled(kind: str, asked: argparse.Namespace) -> Counter[str]:
    """Verdicts of checks drawn from recorded sets."""
    sets = [_recorded(kind, number, asked) for number in range(asked.sets)]
    return Counter(_walked(sets, seed) for seed in range(asked.resampled if len(sets) >= statistics.SETS else 0))


def _recorded(kind: str, number: int, asked: argparse.Namespace) -> Floats:
    told = asked.out / f"set-{KINDS[kind]}-{number:02d}" / "losses.json"
    if not told.exists():
        script = list(LINES)[number // 2 % len(LINES)]
        with _beside_a_busy_process(number % 2 == 1):
            told.parent.mkdir(parents=True, exist_ok=True)
            told.write_text(json.dumps(_turns(told.parent.resolve(), script, KINDS[kind]).tolist()), encoding="utf-8")
        print(f"{kind}: set {number + 1}/{asked.sets}", flush=True)
    return np.array(json.loads(told.read_text(encoding="utf-8")))


def _turns(folder: Path, script: str, percent: int) -> Floats:
    """One set of turns of a sample and its longer version."""
    text = (ROOT / "samples" / script).read_text(encoding="utf-8")
    made = []
    for name, share in (("base", 0), ("head", percent)):
        place = folder / name
        place.mkdir(exist_ok=True)
        (place / script).write_text(_longer(text, LINES[script], share), encoding="utf-8")
        request = Request(target=Target(script=script, folder=place), end_s=time.monotonic() + 120, windows=2)
        made.append(program(measured(request, place / "counted", Found(()), Selection()), place))
    deadline_ns = time.monotonic_ns() + int(300e9)
    sides = Sides(base=made[0], head=made[1], deadline_ns=deadline_ns)
    with RevisionPair(sides, folder.name) as pairs:
        pairs.begin(deadline_ns)
        return losses([pairs.pair(deadline_ns) for _ in range(PAIRS)], sides.clocks[0])


def _walked(sets: Sequence[Floats], seed: int) -> str:
    """One check, its looks and all; how many pairs its budget affords is drawn too."""
    rng = np.random.default_rng(seed)
    most = int(rng.choice(list(statistics.LOOKS)))
    done: list[Floats] = []
    while True:
        drawn, pairs = _drawn(sets[rng.integers(len(sets))], most, rng), statistics.LEAST_PAIRS
        while (move := statistics.next_move(done, drawn[:pairs], most, max(statistics.SHARES), seed)) == "next pair":
            pairs += 1
        done.append(drawn[:pairs])
        if move == "end":
            lost_ns = STEP_NS * (np.exp(statistics.interval(done, seed).estimate) - 1)
            return decided(done, TIME, float(lost_ns))[0]


def _drawn(pairs: Floats, size: int, rng: np.random.Generator) -> Floats:
    starts = rng.integers(pairs.size, size=-(-size // RUN))
    index = ((starts[:, None] + np.arange(RUN)) % pairs.size).reshape(-1)[:size]
    found: Floats = pairs[index]
    return found


@contextmanager
def _beside_a_busy_process(busy: bool) -> Iterator[None]:
    """One that never waits, where `busy`."""
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        yield
    finally:
        if spinning is not None:
            spinning.kill()
            spinning.wait()


def _page(ended: dict[str, Counter[str]], drawn: dict[str, Counter[str]]) -> Iterator[str]:
    yield "# How often a check is wrong"
    yield ""
    yield (
        "Written by `benchmarks/check_rates.py`: two samples, unchanged and with each call of the model made longer, "
        f"half of the checks beside a busy process. A step may take {TIME:.0%} longer; exit code 1 is a regression, 3 "
        "undecided."
    )
    yield ""
    yield "Program | whole checks | exit 0 | exit 1 | exit 3 | resampled | pass | regression | undecided"
    yield "---|--:|--:|--:|--:|--:|--:|--:|--:"
    for kind in KINDS:
        one, two = ended[kind], drawn[kind]
        passed = two["pass"] + two["faster"]
        yield (
            f"{kind} | {one.total()} | {one['0']} | {one['1']} | {one['3']} | {two.total()} | {passed} | "
            f"{two['regression']} | {two['inconclusive']}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
