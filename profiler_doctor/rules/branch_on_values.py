"""The model decides by the values in a tensor which way to go, which a traced or exported copy of it would not.

What it finds
    Ops that make a truth value of a tensor (`if tensor:`, `while`, `assert`, `and`) inside a module's forward call
    within the judged steps.

Why it costs
    On a GPU the decision waits for the device (the rules on synchronization tell what that costs). Here it is a warning
    about measuring: `torch.jit.trace` and the older ONNX export run the model once and bake in the way it took then. A
    copy made so can be faster and wrong.

What to do
    Compare outputs on inputs that take the other way too. To keep both ways in the graph use `torch.where` or
    `torch.cond`; the newer exporter (`torch.export`) refuses such a branch instead of baking it in.

When not to
    A check that only raises an error on bad inputs is lost by tracing and changes nothing else.

Source
    PyTorch's documentation of torch.jit.trace ("tracer warnings") and of torch.export ("control flow").
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.trace import Trace

TRUTH = "aten::is_nonzero"


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """One note for each line that branches."""
    rows = rows_in_window(trace, trace.rows_named(lambda name: name == TRUTH, ("cpu_op",)))
    paths = module_of(trace, rows) if len(rows) else []
    inside = rows[np.array([bool(path) for path in paths], np.bool_)] if len(rows) else rows
    by_line: dict[tuple[str | None, int | None], list[int]] = {}
    for row in inside.tolist():
        place = where_of(trace, row)
        by_line.setdefault((place.file, place.line), []).append(row)
    for (file, line), own in by_line.items():
        at = f"at {file}:{line}" if file else "in its forward call"
        often = "once" if len(own) == 1 else f"{len(own)} times"
        yield Sighting(
            message=f"The model branches on the values of a tensor {at} ({often} in the recorded steps): a "
            "traced or exported copy has one way baked in. Compare outputs on other inputs too.",
            where=where_of(trace, own[0]),
            evidence={"events": len(own)},
            intervals_ns=intervals_of(trace, own),
            grave=False,
        )


RULE = Rule(code="MSR008", name="branch-on-values", doc=__doc__, find=find, needs=(Has.OPS, Has.STACKS))
