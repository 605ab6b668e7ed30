"""Mutated real traces through reading, rules and report: `python -m tests.fuzz_reading --mutations 10000`.

Every file must end as a trace whose damage is counted, or in one sentence; nothing may break, hang or fill the memory.
What breaks is kept in a folder, with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import mutations
from tests.conftest import ROOT, SHARED

LONGEST_WAIT = 120
"""Seconds by the clock for one file; the worker itself stops after 10 seconds of work."""
BOMB_EVERY = 250


@dataclass
class Tally:
    """How the files ended; `broken` are (seed, name of the trace, outcome)."""

    kinds: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)


class Worker:
    """One process that reads file after file, started again when it dies."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> dict[str, Any]:
        """The outcome of one file."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz_worker"], cwd=ROOT, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], LONGEST_WAIT)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return {"kind": "broke", "traceback": "the worker died" if ready else "the worker hung"}
        outcome: dict[str, Any] = json.loads(line)
        return outcome

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def fuzz(first_seed: int, count: int, folder: Path) -> Tally:
    """Read `count` mutated traces; each depends on its own seed alone. Files that broke something stay in `folder`."""
    tally, worker, traces = Tally(), Worker(), mutations.seeds(SHARED / "traces")
    try:
        for seed in range(first_seed, first_seed + count):
            name, content = made(seed, traces)
            path = folder / f"{seed}.json"
            path.write_bytes(content)
            outcome = worker.read(path)
            tally.kinds[outcome["kind"]] += 1
            tally.notes.update(outcome.get("notes", {}).keys())
            if _is_fine(outcome):
                path.unlink()
            else:
                tally.broken.append((seed, name, outcome))
    finally:
        worker.close()
    return tally


def made(seed: int, traces: list[tuple[str, bytes]]) -> tuple[str, bytes]:
    """The mutated trace of one seed, and the name of what it was made of."""
    rng = random.Random(seed)
    if seed % BOMB_EVERY == 0:
        return "bomb", mutations.bomb(rng)
    weights = [1 / (len(text) + 100_000) for _, text in traces]
    [(name, text)] = rng.choices(traces, weights)  # small ones more often: they hold as many kinds of things
    return name, mutations.mutated(rng, text)


def _is_fine(outcome: dict[str, Any]) -> bool:
    if outcome["kind"] == "refused":
        sentence: str = outcome["sentence"]
        return outcome["code"] == 2 and "FILE" in sentence and sentence.endswith(".") and "\n" not in sentence
    return outcome["kind"] == "read" and outcome["events"] > 0


def main() -> int:
    """Print how the files ended, and what broke."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--mutations", type=int, default=500)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--keep", type=Path, default=None, help="folder for the files that broke something")
    options = asked.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="fuzzed-"))
    folder.mkdir(parents=True, exist_ok=True)
    tally = fuzz(options.seed, options.mutations, folder)
    sys.stdout.write(f"{dict(tally.kinds)} {dict(tally.notes.most_common())}\n")
    for seed, name, outcome in tally.broken:
        said = outcome.get("traceback") or outcome
        sys.stdout.write(f"--- seed {seed} ({name}), kept as {folder / f'{seed}.json'}\n{said}\n")
    return 1 if tally.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
