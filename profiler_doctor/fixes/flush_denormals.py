"""Round numbers too small for their type's full precision to zero.

What it does: it has the CPU flush subnormal numbers (in float32 those below 1e-38) to zero, which it otherwise computes
with in microcode, up to a hundred times as slowly.

When it applies: values that decay towards zero: states of optimizers, filters, recurrent networks, long-trained
weights. Normal numbers are not touched.

How results may change: what is smaller than 1.2e-38 (in float32) becomes zero.

Source: https://docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._denormals import flushing


def _applies(machine: Machine) -> str | None:
    return None if machine.device == "cpu" else "the work does not run on a CPU"


FIX = Fix(
    name="flush-denormals",
    doc=__doc__,
    cures=("PRC007",),
    snippet="torch.set_flush_denormal(True)\n",
    changes_numbers="numbers below 1.2e-38 become zero",
    rank=0,
    applies=_applies,
    set_up=lambda _: flushing(),
)
