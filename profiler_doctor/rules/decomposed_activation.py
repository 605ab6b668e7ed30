"""An activation, or a gate made of one, is spelled out in single ops.

What it finds
    GELU by its tanh or error-function form, mish, and x · sigmoid(1.702 x) in single ops, and an activation whose
    result is only multiplied with a second tensor of the same shape (SwiGLU, GeGLU and their like), also where that
    tensor's matrix product stands between them.

Why it costs
    Every op reads and writes the whole tensor, and in a transformer these are the widest ones there are. As one
    kernel they are read once and written once.

What to do
    `F.gelu(x, approximate='tanh')`, `F.mish`, `F.silu`; for a gate a fused kernel of your model's library; or
    `torch.compile` of the module.

When not to
    The written-out form of GELU may round differently from the op's. A gate of a few thousand numbers is not worth
    a kernel of its own. On a CPU the functions themselves stay, and a compiler's tanh is slower than the single op's:
    mish written out is quicker than compiled there, and no finding speaks of it.

Source
    Hendrycks and Gimpel 2016 (GELU); Shazeer 2020 (GLU variants); RULES.md, FUS004.
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Has, Rule
from profiler_doctor.analyzer.measures.decomposed import activations
from profiler_doctor.rules._written_out import finder

RULE = Rule(
    code="FUS004",
    name="decomposed-activation",
    doc=__doc__,
    find=finder(activations, "Activations or gates are written out"),
    needs=(Has.OPS, Has.SHAPES),
)
