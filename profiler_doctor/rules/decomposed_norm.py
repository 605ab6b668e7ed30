"""A layer norm or RMS norm is spelled out in single ops, each a pass over the tensor.

What it finds
    The ops of a norm one after the other on tensors that fit: square, mean, epsilon, root, product (RMS norm), or
    mean, difference, square, mean, epsilon, root, quotient (layer norm), in the orders that people write them, with
    the casts to float32 and back around them and the weight and bias after them.

Why it costs
    Norms do next to no arithmetic; their time is the time of reading and writing the tensor. One op reads it once
    and writes it once, six to eight ops do that six to eight times, with casts at twice the width in between.

What to do
    `torch.nn.functional.rms_norm` or `layer_norm` (on a GPU, from the version on that has a fused kernel for it), a
    fused kernel of your model's library, or `torch.compile` of the module. Keep the sums in float32: the fused ops
    do.

When not to
    Where epsilon, the weight's offset or the order of casts differ from the fused op's, the numbers differ a
    little. On a CPU some versions carry out `rms_norm` in the same single ops; then only a compiler helps.

Source
    Zhang and Sennrich 2019 (RMSNorm); RULES.md, FUS002.
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Has, Rule
from profiler_doctor.analyzer.measures.decomposed import norms
from profiler_doctor.rules._written_out import finder

RULE = Rule(
    code="FUS002",
    name="decomposed-norm",
    doc=__doc__,
    find=finder(norms, "Norms are written out in single ops"),
    needs=(Has.OPS, Has.SHAPES),
)
