"""Do the counters see every planted regression, in every sample, every time?

    python benchmarks/seeded.py --out recorded                  five rounds of all, resumable, then docs/seeded.md
    python benchmarks/seeded.py --out recorded --rounds 1 --sample healthy
    python benchmarks/seeded.py --out recorded --page           the page alone, from the results that are there

Each check is a whole one, as its user makes it: the baseline of the sample was written by `check --update`, then the
edited script is checked. All samples and seeds come before any is repeated. Ends with status 1 where one was missed,
or where an edit that changes nothing was called worse.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.seeds import SEEDS, Seed  # noqa: E402

PAGE = ROOT / "docs" / "seeded.md"
SAMPLES = tuple(path.stem for path in sorted((ROOT / "samples").glob("*.py")))
ROUNDS = 5
OPTIONS = ("--no-time", "--windows", "2", "--format", "json", "-q")
"""Counters alone, of as few steps as can show that they repeat."""


@dataclass(frozen=True)
class Result:
    """One check: its exit code, the counters that it called worse, and the seconds it took."""

    exit_code: int
    worse: tuple[str, ...]
    took_s: float

    def tells(self, seed: Seed) -> str:
        """The counter that saw the seed; empty: none did."""
        seen = sorted(seed.counters.intersection(self.worse))
        return seen[0] if self.exit_code == 1 and seen else ""

    def right(self, seed: Seed) -> bool:
        """Whether the check said what it should."""
        return bool(self.tells(seed)) if seed.counters else self.exit_code == 0


def main() -> int:
    """Make the checks that are missing, write the page."""
    asked = _arguments()
    cells = [(sample, name) for sample in asked.sample or SAMPLES for name in asked.seed or SEEDS]
    for number in range(0 if asked.page else asked.rounds):
        for sample, name in cells:
            _once(asked.out.resolve(), sample, name, number)
    results = {cell: _results(asked.out, *cell) for cell in cells}
    page = "\n".join(_page(results)) + "\n"
    asked.to.write_text(page, encoding="utf-8")
    print(page)
    return int(any(not result.right(SEEDS[name]) for (_, name), found in results.items() for result in found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of what is recorded")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="checks of each sample and seed")
    parser.add_argument("--sample", action="append", choices=SAMPLES, help="only this one; may be repeated")
    parser.add_argument("--seed", action="append", choices=list(SEEDS), help="only this one; may be repeated")
    parser.add_argument("--page", action="store_true", help="check nothing")
    parser.add_argument("--to", type=Path, default=PAGE, help="where to write what came out")
    return parser.parse_args()


def _once(out: Path, sample: str, name: str, number: int) -> None:
    """One check, unless it is recorded already."""
    told = out / "results" / f"{sample}-{name.replace(' ', '-')}-{number}.json"
    if told.exists():
        return
    seed, text = SEEDS[name], (ROOT / "samples" / f"{sample}.py").read_text(encoding="utf-8")
    baseline = _baseline(out, sample, seed.base(text))
    begun = time.monotonic()
    answer, code = _check(out / "edited" / sample, sample, seed.edit(text), ("--baseline", str(baseline)))
    rows = answer["workloads"][0]["rows"] if answer else []
    result = Result(code, tuple(row["name"] for row in rows if row["status"] == "worse"), time.monotonic() - begun)
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(json.dumps(asdict(result)) + "\n", encoding="utf-8")
    said = "as expected" if result.right(seed) else f"WRONG, exit code {code}, worse: {', '.join(result.worse)}"
    print(f"{number + 1}: {sample}, {name}: {said} ({result.took_s:.0f} s)", flush=True)


def _baseline(out: Path, sample: str, text: str) -> Path:
    """The baseline of a program, written once; whoever edits the sample gets another."""
    folder = out / "bases" / f"{sample}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    path = folder / "baseline.json"
    if not path.exists():
        _, code = _check(folder, sample, text, ("--baseline", str(path), "--update"))
        if code:
            raise SystemExit(f"{sample} gave no baseline, exit code {code}")
    return path


def _check(folder: Path, sample: str, text: str, words: Sequence[str]) -> tuple[dict[str, Any], int]:
    """The answer of `check` about a program, and its exit code; what it complains of goes to our own errors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{sample}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "profiler_doctor", "check", f"{sample}.py", *OPTIONS, *words]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False)
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return answer, done.returncode


def _results(out: Path, sample: str, name: str) -> list[Result]:
    found = sorted((out / "results").glob(f"{sample}-{name.replace(' ', '-')}-*.json"))
    return [Result(**json.loads(path.read_text(encoding="utf-8"))) for path in found]


def _page(results: dict[tuple[str, str], list[Result]]) -> Iterator[str]:
    samples, seeds = (list(dict.fromkeys(cell[place] for cell in results)) for place in (0, 1))
    made = [(name, result) for (_, name), found in results.items() for result in found]
    planted = [(SEEDS[name], result) for name, result in made if SEEDS[name].counters]
    caught = sum(result.right(seed) for seed, result in planted)
    same = [result for name, result in made if not SEEDS[name].counters]
    alarms = sum(result.exit_code != 0 for result in same)
    yield "# What the counters see"
    yield ""
    yield (
        f"Written by `benchmarks/seeded.py`: a baseline of each sample, then checks of edited ones "
        f"(`check --no-time`). {caught} of {len(planted)} planted regressions were caught; of {len(same)} programs in "
        f"which nothing changed, {alarms} were called worse or could not be compared. A check took "
        f"{_median([result.took_s for _, result in made]):.0f} s (median)."
    )
    yield ""
    yield "A cell says how many of the checks saw the regression, and the counter that told of it in all of them."
    yield ""
    yield " | ".join(["Sample", *seeds])
    yield "|".join(["---"] * (len(seeds) + 1))
    for sample in samples:
        yield " | ".join([sample, *(_cell(SEEDS[name], results[sample, name]) for name in seeds)])
    yield ""
    yield "## The edits"
    yield ""
    yield from (f"- {name}: {', '.join(sorted(SEEDS[name].counters)) or 'none'} may tell" for name in seeds)


def _cell(seed: Seed, found: Sequence[Result]) -> str:
    if not found:
        return "–"
    number = f"{sum(result.right(seed) for result in found)} of {len(found)}"
    told = Counter(result.tells(seed) for result in found if result.tells(seed))
    return f"{number} `{told.most_common(1)[0][0]}`" if told else number


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
