"""Let an ONNX graph take numbers too small for full precision as zero.

What it does: it sets the entry `session.set_denormal_as_zero` to 1. For the thread that calls the session only the
first session of a process has a say (measured: 3 to 30 times as fast, less where it came second), so the trial sets
that thread's own switch as well.

When it applies: a `.onnx` file is the target, run on a CPU. Processors compute with subnormal numbers many times
slower; random inputs hold none, so only what weights and activations bring of them shows here.

How results may change: numbers below 1.2e-38 (float32) become 0.

Source: https://onnxruntime.ai/docs/api/c/struct_ort_api.html (session configuration keys)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root
from profiler_doctor.fixes._denormals import flushing
from profiler_doctor.fixes._session import in_session, of_graphs


def _applies(machine: Machine) -> str | None:
    return of_graphs(machine) or ("only CPUs are slow with such numbers" if machine.device != "cpu" else None)


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    graph = in_session(root, {"session.set_denormal_as_zero": "1"})
    with flushing():  # after the session: the first one of a process switches it off
        yield graph


FIX = Fix(
    name="session-flush-denormals",
    doc=__doc__,
    cures=(),
    snippet="""\
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.set_denormal_as_zero", "1")  # in the process's first session
""",
    changes_numbers="numbers below 1.2e-38 become 0",
    rank=2,
    clock="wall",
    applies=_applies,
    set_up=lambda _: flushing(),  # so that the copies, which run without what is set up, run without it
    treat=_treat,
    of="onnx",
)
