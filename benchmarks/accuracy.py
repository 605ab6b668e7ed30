"""Are the doctor's verdicts right? Every labelled case, run as its user would, and what came out beside what should.

    python benchmarks/accuracy.py                     every case that has no result yet, then docs/accuracy.md
    python benchmarks/accuracy.py --case 28 --case 06 only these, again where they have a result
    python benchmarks/accuracy.py --page              the page alone, from the results that are there

A result is the document of one run, kept as JSON; so a run may be interrupted, and cases measured one by one while the
machine is quiet. A case whose cure we have is run three times, the others once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy_page import page, plot  # noqa: E402
from benchmarks.cases import Case, cases  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
PLOT = ROOT / "docs" / "accuracy.svg"
RESULTS = ROOT / "benchmarks" / "results" / "accuracy"
RUNS = 3
KEPT = ("subject", "environment", "totals", "outcomes", "joint_stake", "trials", "verdict", "capture")
"""Of the document; its tables are not about verdicts."""


def main() -> None:
    """Run what was asked for, and write the page from all results."""
    asked = _arguments()
    known = cases(asked.cases)
    for case in [] if asked.page else [case for case in known if not asked.case or case.number in asked.case]:
        _measure(case, asked)
    measured = {case: _results(asked.results, case) for case in known}
    PAGE.write_text(page(measured), encoding="utf-8")
    PLOT.write_text(plot(measured), encoding="utf-8")
    print(PAGE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", help="number of a case (28); may be given several times")
    parser.add_argument("--cases", type=Path, default=ROOT.parent / "shared" / "cases", help="folder of the cases")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder that results are kept in")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for each run")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a case whose cure we have")
    parser.add_argument("--page", action="store_true", help="run nothing")
    return parser.parse_args()


def _measure(case: Case, asked: argparse.Namespace) -> None:
    """The runs of one case that have no result yet; a case that was named is run again."""
    asked.results.mkdir(parents=True, exist_ok=True)
    number = 0
    while number < 1 or (number < asked.runs and case.curable(_results(asked.results, case))):
        number += 1
        path = asked.results / f"{case.name}-{number}.json"
        if path.exists() and not asked.case:
            continue
        document = _run(case, asked.budget)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{case.name} run {number}: {document['verdict']['sentence']}", flush=True)


def _run(case: Case, budget_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="accuracy-") as folder:
        command = [sys.executable, "-m", "profiler_doctor", "run", str(case.path), "--format", "json", "--quiet"]
        command += ["--budget", f"{budget_s:g}", "--out", folder, "--", "--variant", "slow"]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return {"verdict": {"sentence": f"no document, exit status {done.returncode}", "exit_code": done.returncode}}
    return {key: document[key] for key in KEPT if key in document}


def _results(folder: Path, case: Case) -> list[dict[str, Any]]:
    """The documents of its runs, in order."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{case.name}-*.json"))]


if __name__ == "__main__":
    main()
