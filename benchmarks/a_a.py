"""Is a trial ever fooled by a fix that does nothing, and from when on does it see a true difference?

    python benchmarks/a_a.py --out recorded               all of it (an hour); goes on where it was interrupted
    python benchmarks/a_a.py --out recorded --trials 0    record and resample alone
    python benchmarks/a_a.py --out recorded --sets 0 --trials 0   resample again from what is there

Whole trials of the placebo, half of them beside a busy process; then at least twelve recorded sets of interleaved steps
of the same code, of code that is 5 % and of code that is 10 % slower, and trials resampled from them. Writes
docs/false-verdicts.md, and ends with status 1 if anything was called faster that is not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.recording import CLOCKS, KINDS, SCRIPTS, Recorded, beside_a_busy_process, program, record, recorded  # noqa: E402
from benchmarks.resampling import Design, Outcome, resampled  # noqa: E402
from profiler_doctor.analyzer import statistics  # noqa: E402
from profiler_doctor.analyzer.trial import TrialRequest, trials  # noqa: E402
from profiler_doctor.fixes.do_nothing import FIX  # noqa: E402

PAGE = ROOT / "docs" / "false-verdicts.md"


def main() -> int:
    """Record what is missing, resample, write the page."""
    asked = _arguments()
    verdicts = _whole_trials(asked.trials, asked.budget, asked.out)
    record(asked.out, asked.sets, tuple(KINDS))
    fooled, lines = verdicts["verified"], [*_introduction(), *_told(verdicts)]
    for clock in CLOCKS:
        sets = {kind: recorded(asked.out, kind) for kind in KINDS}
        if min(map(len, sets.values())) < statistics.SETS:
            continue
        wrong, rows = _of_clock(clock, sets, asked)
        fooled, lines = fooled + wrong, [*lines, *rows]
    lines.append(f"**{'Never fooled' if not fooled else f'Fooled {fooled} times'}.**")
    asked.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return int(fooled > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of what is recorded")
    parser.add_argument("--trials", type=int, default=20, help="whole trials of the placebo")
    parser.add_argument("--budget", type=float, default=45.0, help="seconds for each of them")
    parser.add_argument("--sets", type=int, default=12, help="sets of each kind to record")
    parser.add_argument("--resampled", type=int, default=1000, help="trials of the same code to resample")
    parser.add_argument("--detections", type=int, default=50, help="trials to resample for each rate of detection")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write what came out")
    return parser.parse_args()


def _whole_trials(count: int, budget_s: float, folder: Path) -> Counter[str]:
    """Verdicts of trials from the first process to the last, every second one beside a busy process."""
    verdicts: Counter[str] = Counter()
    for number in range(count):
        name = list(SCRIPTS)[number // 2 % len(SCRIPTS)]
        place = folder / f"trial-{number:02d}-{name}"
        told = place / "verdict.txt"
        if not told.exists():
            place.mkdir(parents=True, exist_ok=True)
            with beside_a_busy_process(number % 2 == 1):
                deadline_ns = time.monotonic_ns() + int(budget_s * 1e9)
                request = TrialRequest(program=program(name, place), deadline_ns=deadline_ns, budget_s=budget_s)
                (trial,) = trials(request, [FIX])
            told.write_text(f"{trial.verdict}\n{trial.reason}\n", encoding="utf-8")
        verdict, reason, *_ = [*told.read_text(encoding="utf-8").splitlines(), ""]
        verdicts[verdict] += 1
        print(f"{number + 1:3d}/{count} {name:15s} {verdict:13s} {reason}", flush=True)
    return verdicts


def _introduction() -> Iterator[str]:
    yield "# False verdicts"
    yield ""
    yield (
        "Written by `benchmarks/a_a.py`. A placebo is a fix that changes nothing: both sides of its trial run the same "
        "code, so whatever a trial calls faster there is an error. Sets are recorded as trials make them, half of them "
        "beside a busy process, and trials are drawn from them again and again, looks and all."
    )
    yield ""


def _told(verdicts: Counter[str]) -> Iterator[str]:
    if verdicts:
        parts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        yield f"Whole trials of the placebo: {sum(verdicts.values())}, of them {parts}."
        yield ""


def _of_clock(clock: str, sets: dict[str, list[Recorded]], asked: argparse.Namespace) -> tuple[int, list[str]]:
    """How often something was called faster that is not, and the lines of the page."""
    ratios = {kind: [one.ratios[clock] for one in found] for kind, found in sets.items()}
    same = resampled(ratios["same"], Design(either=True), asked.resampled)
    fooled = same.verdicts["faster"]
    lines = [f"## By {clock} time", ""]
    lines += [f"{same.trials} trials resampled from {len(ratios['same'])} sets of the same code: {_counts(same)}.", ""]
    lines += ["Difference | Pairs in a set | Sets | Seconds | Loss called slower | Loss called faster | Gain verified"]
    lines += ["---|--:|--:|--:|--:|--:|--:"]
    for kind in [kind for kind in KINDS if kind != "same"]:
        for most in statistics.LOOKS:
            loss = resampled(ratios[kind], Design(most_pairs=most), asked.detections)
            gain = resampled(ratios[kind], Design(most_pairs=most, turned=True), asked.detections)
            fooled += loss.verdicts["faster"]
            lines.append(_row(kind, most, (loss, gain), sets[kind]))
    return fooled, [*lines, ""]


def _counts(outcome: Outcome) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(outcome.verdicts.items()))


def _row(kind: str, most: int, outcomes: tuple[Outcome, Outcome], sets: Sequence[Recorded]) -> str:
    loss, gain = outcomes
    start_s, pair_s = median(one.start_s for one in sets), median(one.pair_s for one in sets)
    seconds = gain.sets * start_s + gain.pairs * pair_s
    return (
        f"{kind.removeprefix('slower-')} % | {most} | {gain.sets:.1f} | {seconds:.0f} | {loss.rate('slower'):.0%} | "
        f"{loss.rate('faster'):.0%} | {gain.rate('faster'):.0%}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
