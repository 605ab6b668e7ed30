"""Measure our reader and analysis beside the plain way and other tools: `python -m benchmarks [--full]`.

Every measurement is a fresh process, and the contenders take turns on the same file, so that a busy machine slows all
of them alike. CPU seconds count from the end of the imports to the result, memory is the most the process ever held.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import venv
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.scaled import SOURCES, write_scaled
from benchmarks.table import Measured, page

ROOT = Path(__file__).parent.parent
TRACES = ROOT.parent / "shared" / "traces"
PAGE = ROOT / "docs" / "performance.md"
OURS = ("our_reader", "our_measures", "our_analysis")
PLAIN = ("plain_json", "exact_json")
PEERS = {"hta": "HolisticTraceAnalysis", "torch_tb": "torch-tb-profiler"}
PEERS_UP_TO = 230
"""MB of text; at 1 GB they and the plain way need minutes, and several GB of memory."""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--full", action="store_true", help="also 230 MB and 1 GB, and the other tools; writes the page")
    asked.add_argument("--repeat", type=int, default=3)
    asked.add_argument("--peers", type=Path, help="environment that holds the other tools already")
    options = asked.parse_args()
    sizes = (46, 230, 1000) if options.full else (46,)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        peers = _peers(options.peers, Path(folder)) if options.full else None
        measured = [found for size in sizes for found in _of_size(Path(folder), size, options.repeat, peers)]
    text = page(measured, _machine())
    print(text)
    if options.full:
        PAGE.write_text(text)


def _of_size(folder: Path, size: int, repeat: int, peers: Path | None) -> list[Measured]:
    found = []
    for kind, source in SOURCES.items():
        path = folder / f"{kind}_{size}.json.gz"
        written = write_scaled(TRACES / f"{source}.json.gz", path, size * 1_000_000)
        contenders = [*OURS, *(PLAIN if size <= PEERS_UP_TO else ())]
        if peers is not None and size <= PEERS_UP_TO:
            contenders += PEERS
        runs = [(name, _alone(name, path, peers)) for _ in range(repeat) for name in contenders]
        for name in contenders:
            took = [run for of, run in runs if of == name]
            cpu = median(float(run["cpu_s"]) for run in took)
            memory = max(int(run["peak_bytes"]) for run in took)
            found.append(Measured(kind, size, written, name, cpu, memory, int(took[0]["events"])))
            print(f"{kind} {size} MB {name}: {cpu:.2f} s, {memory / 1e6:.0f} MB", file=sys.stderr)
        path.unlink()
    return found


def _alone(name: str, path: Path, peers: Path | None) -> dict[str, float]:
    """What one contender took, in a process of its own."""
    python = str(peers / "bin" / "python") if name in PEERS and peers else sys.executable
    done = subprocess.run(
        [python, "-m", "benchmarks.alone", name, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def _peers(given: Path | None, folder: Path) -> Path:
    """An environment with the other tools, made where none is given: they are no part of the project."""
    if given is not None:
        return given
    made = folder / "peers"
    venv.create(made, with_pip=True)
    subprocess.run([str(made / "bin" / "python"), "-m", "pip", "install", "-q", *PEERS.values()], check=True)
    return made


def _machine() -> str:
    cpus = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")), platform.machine())
    now = datetime.now(UTC).date()
    return f"{now}, {os.cpu_count()} × {model}, {platform.system()}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
