"""Record sets of interleaved steps as trials make them: of the same code, and of code that is slower by a known part.

Each set is a file of its own, so a recording that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import slower
from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.statistics import Floats
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.analyzer.trial_set import PairSet
from profiler_doctor.fixes import do_nothing

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
KINDS: Mapping[str, Fix] = {"same": do_nothing.FIX, "slower-5": slower.FIVE, "slower-10": slower.TEN}
"""What the treated side does, by the name it is recorded under."""
LONGEST_SET_S = 120.0


@dataclass(frozen=True)
class Recorded:
    """One set: its log ratios by clock, and what it cost."""

    ratios: Mapping[str, Floats]
    start_s: float
    pair_s: float


def program(name: str, folder: Path) -> Program:
    """One of the scripts, written to this folder, as a trial wants it."""
    script = folder / "script.py"
    script.write_text(FRAME.format(model=SCRIPTS[name]), encoding="utf-8")
    source = StepSource(kind="module", words="calls")
    fixes = (str(Path(slower.__file__).resolve()),)
    return Program(target=Target(script=str(script)), folder=folder, source=source, machine=MACHINE, fix_files=fixes)


def record(folder: Path, sets: int, kinds: tuple[str, ...]) -> None:
    """So many sets of each kind, every second one beside a busy process; those that are there already are kept."""
    for number in range(sets):
        name = list(SCRIPTS)[number % len(SCRIPTS)]
        busy = number // len(SCRIPTS) % 2 == 1
        for kind in kinds:
            path = folder / f"{kind}-{number:02d}-{name}{'-busy' if busy else ''}" / "set.json"
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with beside_a_busy_process(busy):
                found = _one_set(program(name, path.parent), KINDS[kind])
            path.write_text(json.dumps(found), encoding="utf-8")
            print(path.parent.name, flush=True)


def recorded(folder: Path, kind: str) -> list[Recorded]:
    """The sets of one kind."""
    return [_read(path) for path in sorted(folder.glob(f"{kind}-[0-9][0-9]-*/set.json"))]


@contextmanager
def beside_a_busy_process(busy: bool) -> Iterator[None]:
    """While it lasts another process uses a CPU, if it is to."""
    if not busy:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


def _one_set(tried: Program, fix: Fix) -> dict[str, object]:
    begun = time.monotonic()
    by_ns = time.monotonic_ns() + int(LONGEST_SET_S * 1e9)
    with PairSet(tried, tried.folder.name, (fix,), compare=False) as pairs:
        pairs.begin(by_ns)
        started = time.monotonic()
        made = [asdict(pairs.pair(by_ns)) for _ in range(max(statistics.LOOKS))]
    for pair in made:
        for side in ("baseline", "treated"):
            del pair[side]["step_ns"]
    took_s = time.monotonic() - started
    return {"pairs": made, "start_s": started - begun, "pair_s": took_s / len(made)}


def _read(path: Path) -> Recorded:
    raw = json.loads(path.read_text(encoding="utf-8"))
    ratios = {
        clock: statistics.log_ratios(
            [pair["baseline"][key] for pair in raw["pairs"]], [pair["treated"][key] for pair in raw["pairs"]]
        )
        for clock, key in CLOCKS.items()
    }
    return Recorded(ratios, raw["start_s"], raw["pair_s"])
