"""torch_tb_profiler: parse a trace and work out what its pages show, without a server."""

from pathlib import Path

from torch_tb_profiler.profiler.data import RunProfileData


def run(path: Path) -> int:
    profile = RunProfileData.parse("worker", "1", str(path), str(path.parent))
    profile.process()
    return len(profile.events)
