"""Run one contender in this process, which was started for it, and print what it took as one line of JSON."""

import importlib
import json
import sys
import time
from pathlib import Path


def main(contender: str, path: Path) -> None:
    run = importlib.import_module(f"benchmarks.contenders.{contender}").run
    before, began = time.process_time(), time.perf_counter()
    events = run(path)
    took = {"cpu_s": time.process_time() - before, "wall_s": time.perf_counter() - began}
    print(json.dumps({**took, "whole_cpu_s": time.process_time(), "peak_bytes": peak_bytes(), "events": events}))


def peak_bytes() -> int:
    """The most memory the process ever held: VmHWM, which unlike ru_maxrss does not come from the parent."""
    status = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


main(sys.argv[1], Path(sys.argv[2]))
