"""`--tensorboard DIR`: a log directory that the plugin's own loader reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiler_doctor.reports.tensorboard import write_log

LOAD = """
import sys
from torch_tb_profiler import io
from torch_tb_profiler.profiler.loader import RunLoader
if __name__ == "__main__":
    run = RunLoader("run", sys.argv[1], io.Cache()).load()
    for profile in run.profiles.values():
        if hasattr(profile, "kernel_table"):
            print(profile.worker, *(view.display_name for view in profile.views), sep="|")
            print(len(profile.kernel_table["data"]["rows"]))
"""


def test_the_plugins_loader_reads_it(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch_tb_profiler", exc_type=ImportError)
    trace = shared / "traces" / "hta_a100_nccl_resnet.json.gz"
    command = [sys.executable, "-m", "profiler_doctor", "analyze", str(trace), "--tensorboard", str(tmp_path / "logs")]

    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (run,) = (tmp_path / "logs").iterdir()
    (tmp_path / "load.py").write_text(LOAD)
    read = subprocess.run(
        [sys.executable, str(tmp_path / "load.py"), str(run)], capture_output=True, text=True, check=False, timeout=300
    )

    assert read.returncode == 0, read.stderr
    first, second = read.stdout.splitlines()
    assert first.startswith(f"{run.name}|Overview|Operator|Kernel")
    assert int(second) > 10


def test_the_trace_is_copied_byte_for_byte_under_a_name_that_stays(tmp_path: Path) -> None:
    trace = tmp_path / "my trace!.json"
    trace.write_bytes(b'{"traceEvents": []}')
    os.utime(trace, ns=(0, 1_700_000_000_123_456_789))

    first, second = (write_log(trace, trace.name, tmp_path / "logs") for _ in range(2))

    assert first == second == tmp_path / "logs" / "my_trace_" / "my_trace_.1700000000123.pt.trace.json"
    assert first.read_bytes() == trace.read_bytes()
    assert list(first.parent.iterdir()) == [first]


def test_packed_traces_keep_their_ending(tmp_path: Path) -> None:
    trace = tmp_path / "rank0.json.gz"
    trace.write_bytes(b"\x1f\x8b rest")

    assert write_log(trace, "rank0", tmp_path).name.endswith(".pt.trace.json.gz")
