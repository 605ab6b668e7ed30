"""`profiler-doctor env`: what can be recorded and timed on this machine, and what would get into the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from profiler_doctor.analyzer.capture.environment import environment
from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.verbs.output import BadOption

SELF_CHECK = "profiler_doctor.analyzer.capture.child.self_check"
PATIENCE_S = 120
SLOWING = {
    "CUDA_LAUNCH_BLOCKING": "every kernel launch waits for its kernel",
    "HIP_LAUNCH_BLOCKING": "every kernel launch waits for its kernel",
    "AMD_SERIALIZE_KERNEL": "every kernel launch waits for its kernel",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor is allocated anew",
    "TORCH_COMPILE_DISABLE": "torch.compile does nothing",
    "PYTORCH_JIT": "0 makes TorchScript run as Python",
    "PYTHONMALLOC": "Python's memory is allocated by something slower",
    "TORCHDYNAMO_DISABLE": "torch.compile does nothing",
}
"""Variables that change what is measured, and how."""
BUSY_SHARE = 0.5
"""Load per usable CPU from which small gains cannot be told (trials on two cores at load 2 miss gains of a tenth)."""


def env(format_: str) -> ExitCode:
    """Print the self-check. 2 where no torch can be used; warnings alone do not fail."""
    if format_ not in ("text", "json"):
        raise BadOption(f"--format {format_}: choose from text, json.")
    known = environment(("profiler-doctor", "env"))
    torch = _asked_torch()
    doubts = list(_doubts(known, torch))
    if format_ == "json":
        sys.stdout.write(json.dumps({**known, "torch": torch, "doubts": doubts}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(known, torch, doubts))
    return ExitCode.UNUSABLE if "error" in torch else ExitCode.FINE


def _asked_torch() -> dict[str, Any]:
    """What the child says; `error` with its last words where it says nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", SELF_CHECK], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"importing torch took over {PATIENCE_S} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or [f"the process ended with {done.returncode}"])[-1]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _doubts(known: dict[str, Any], torch: dict[str, Any]) -> Iterator[str]:
    cpu, load = known["cpu"], known["load"][0]
    if "error" in torch:
        yield f"torch cannot be used ({torch['error']}): `run` needs it, `analyze` does not."
    if load > BUSY_SHARE * cpu["usable"]:
        yield f"Other programs keep this machine busy (load {load:g} on {cpu['usable']} CPUs): small gains won't show."
    if torch.get("threads", 0) > cpu["usable"]:
        yield f"torch would use {torch['threads']} threads on {cpu['usable']} usable CPUs: ENV001 costs time here."
    if torch.get("devices") and not {"CUDA", "XPU"} & set(torch.get("activities", ())):
        yield "There is a GPU, but torch's profiler cannot record it (no CUPTI or roctracer): kernels will be missing."
    if torch.get("anomaly"):
        yield "Anomaly detection is on as soon as torch is imported."
    if torch.get("traced"):
        yield "A debugger or coverage tool follows every line of Python."
    for variable, effect in SLOWING.items():
        if os.environ.get(variable):
            yield f"{variable}={os.environ[variable]} is set: {effect}."


def _lines(known: dict[str, Any], torch: dict[str, Any], doubts: list[str]) -> Iterator[str]:
    cpu = known["cpu"]
    quota = f", quota {cpu['quota']:g}" if cpu["quota"] else ""
    yield f"profiler-doctor {known['profiler_doctor']}, Python {known['python']}, {known['platform']}"
    yield f"CPU      {cpu['model']}: {cpu['usable']} usable of {cpu['count']}{quota}; load {known['load'][0]:g}"
    yield f"Memory   {known['memory_bytes'] / 1e9:.1f} GB"
    yield f"Clock    steps of {torch['tick_ns']} ns" if "tick_ns" in torch else "Clock    not asked"
    if "error" not in torch:
        built = torch["cuda"] or torch["hip"]
        yield f"torch    {torch['torch']}, {torch['threads']} threads" + (
            f", built for {built}" if built else ", CPU only"
        )
        yield f"Devices  {', '.join(torch['devices']) or 'no GPU'}"
        yield f"Profiler records {', '.join(torch['activities'])}"
    packages = {name: version for name, version in known["packages"].items() if name != "torch"}
    yield f"Packages {', '.join(f'{name} {version}' for name, version in packages.items())}"
    yield ""
    yield from (f"! {doubt}" for doubt in doubts)
    if not doubts:
        yield "Nothing gets into the way."
