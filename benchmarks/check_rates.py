"""How often does `check` raise a false alarm, and how often does it see a true loss of time?

    python benchmarks/check_rates.py --out recorded                  all of it (hours on a busy machine, resumable)
    python benchmarks/check_rates.py --out recorded --checks 0       record sets of turns and resample alone
    python benchmarks/check_rates.py --out recorded --sets 0 --kind unchanged --kind "25 % longer"
    python benchmarks/check_rates.py --out recorded --page-only      the page alone, from what is there

Whole checks from the first process to the last (`check --base HEAD`) of two samples: unchanged, and with every call of
the model made 10 % and 25 % longer in CPU time, half of them beside a busy process. Then sets of turns of the same
kinds are recorded, and checks resampled from them, each walked as a real one is. One check of every kind is made before
the second of any, so that whatever there was time for can be shown. Writes docs/check-rates.md, and ends with status 1
after any false alarm.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

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
    kinds = asked.kind or list(KINDS)
    for number in range(0 if asked.page_only else asked.checks):
        for kind in kinds:
            _whole(kind, number, asked)
    for number in range(0 if asked.page_only else asked.sets):
        for kind in kinds:
            _record(kind, number, asked)
    ended = {kind: _ended(kind, asked) for kind in KINDS}
    drawn = {kind: _resampled(kind, asked) for kind in KINDS}
    page = "\n".join(_page(ended, drawn)) + "\n"
    asked.page.write_text(page, encoding="utf-8")
    print(page)
    alarms = sum(one.exit_code == 1 for one in ended["unchanged"]) + drawn["unchanged"]["regression"]
    return int(alarms > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of what is recorded")
    parser.add_argument("--checks", type=int, default=20, help="whole checks of each kind")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for each of them, at most")
    parser.add_argument("--sets", type=int, default=12, help="sets of each kind to record")
    parser.add_argument("--resampled", type=int, default=1000, help="checks of each kind to resample")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this one; may be repeated")
    parser.add_argument("--page-only", action="store_true", help="run nothing")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write what came out")
    return parser.parse_args()


@dataclass(frozen=True)
class Ended:
    """A whole check that was made."""

    busy: bool
    """Whether it stood beside a busy process."""
    exit_code: int
    time: str
    """The verdict on time: planted waiting is a gap between the ops as well, which a counter may see first."""
    took_s: float


def _whole(kind: str, number: int, asked: argparse.Namespace) -> None:
    """One whole check, unless it is recorded already."""
    script = list(LINES)[number // 2 % len(LINES)]
    folder = asked.out / f"check-{KINDS[kind]}-{number:02d}"
    told = folder / "answer.json"
    if told.exists():
        return
    _make_project(folder, script, KINDS[kind])
    command = [sys.executable, "-m", "profiler_doctor", "check", script, "--base", "HEAD", "--format", "json"]
    begun = time.monotonic()
    with _beside_a_busy_process(_busy(number)):
        made = subprocess.run(
            [*command, "--windows", "2", "-q", "--budget", str(asked.budget)],
            cwd=folder,
            stdout=subprocess.PIPE,
            check=False,
        )
    answer = {**json.loads(made.stdout), "took_s": time.monotonic() - begun}
    told.write_text(json.dumps(answer) + "\n", encoding="utf-8")
    said = f"{answer['workloads'][0]['time']['reason']} ({answer['took_s']:.0f} s)"
    print(f"{kind}: {number + 1}/{asked.checks} {script} {said}", flush=True)


def _busy(number: int) -> bool:
    return number % 2 == 1


def _ended(kind: str, asked: argparse.Namespace) -> list[Ended]:
    """All whole checks of a kind that there are."""
    found = []
    for path in sorted(asked.out.glob(f"check-{KINDS[kind]}-*/answer.json")):
        answer, number = json.loads(path.read_bytes()), int(path.parent.name.rpartition("-")[2])
        verdict = answer["workloads"][0]["time"]["verdict"]
        found.append(Ended(_busy(number), answer["verdict"]["exit_code"], verdict, answer.get("took_s", 0.0)))
    return found


def _make_project(folder: Path, script: str, percent: int) -> None:
    """A repository with the sample, and the longer one in the working tree; what an interrupted check left goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
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
    """Verdicts of checks drawn from the sets that there are."""
    paths = sorted(asked.out.glob(f"set-{KINDS[kind]}-*/losses.json"))
    sets = [np.array(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return Counter(_walked(sets, seed) for seed in range(asked.resampled if len(sets) >= statistics.SETS else 0))


def _record(kind: str, number: int, asked: argparse.Namespace) -> None:
    """One set of turns, unless it is recorded already."""
    told = asked.out / f"set-{KINDS[kind]}-{number:02d}" / "losses.json"
    if told.exists():
        return
    script = list(LINES)[number // 2 % len(LINES)]
    with _beside_a_busy_process(_busy(number)):
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(json.dumps(_turns(told.parent.resolve(), script, KINDS[kind]).tolist()), encoding="utf-8")
    print(f"{kind}: set {number + 1}/{asked.sets}", flush=True)


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


def _page(ended: dict[str, list[Ended]], drawn: dict[str, Counter[str]]) -> Iterator[str]:
    every = [one for found in ended.values() for one in found]
    busy = sum(one.busy for one in every)
    yield "# How often a check is wrong"
    yield ""
    yield (
        "Written by `benchmarks/check_rates.py`: two samples, unchanged and with each call of the model made longer. "
        f"{len(every)} whole checks (`check --base HEAD`), {busy} of them beside a busy process; "
        f"{sum(sum(found.values()) for found in drawn.values())} resampled ones. A step may take {TIME:.0%} longer."
    )
    yield ""
    yield "Program | whole checks | exit 0 | exit 1 | exit 3 | time: pass | regression | undecided | seconds (median)"
    yield "---|--:|--:|--:|--:|--:|--:|--:|--:"
    for kind, found in ended.items():
        codes, times = Counter(one.exit_code for one in found), Counter(one.time for one in found)
        took = f"{median(one.took_s for one in found):.0f}" if found else "–"
        yield (
            f"{kind} | {len(found)} | {codes[0]} | {codes[1]} | {codes[3]} | {times['pass'] + times['faster']} | "
            f"{times['regression']} | {times['inconclusive'] + times['not comparable']} | {took}"
        )
    yield ""
    yield "Program | resampled | pass | regression | undecided"
    yield "---|--:|--:|--:|--:"
    for kind, two in drawn.items():
        yield f"{kind} | {two.total()} | {two['pass'] + two['faster']} | {two['regression']} | {two['inconclusive']}"


if __name__ == "__main__":
    raise SystemExit(main())
