"""The optimizer has a parameter group for each tensor, so it takes one tensor at a time.

What it finds
    Optimizers with at least 16 groups of a single tensor that together share fewer settings, by the time that their
    steps take. Our own capture counts the groups; in other recordings they show as many calls of a fused or foreach
    kernel, each over a list of one tensor, within one step of an optimizer.

Why it costs
    Implementations over lists of tensors (`fused=True`, `foreach=True`) do all tensors of a group in one go, but each
    group by itself. With one tensor in each they run as often as there are tensors, and each time pay for reading the
    group's options, for its step count and for the call.

What to do
    Make a group for each combination of options (learning rate, weight decay, …) and put all tensors that share it in
    there; `optimizer.param_groups` is where to see them. `fused=True` alone does nothing while groups hold one tensor.

When not to
    Where each tensor really has a learning rate of its own, as with layer-wise decay: then a group a layer is the best
    there is. A checkpoint of the optimizer's state that was written with other groups must be converted.

Source
    roboflow/rf-detr#1409 (465 groups to 28), pytorch/pytorch#134191; RULES.md, OPT005.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.facts import OptimizerFacts
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.ops import outermost_named
from profiler_doctor.analyzer.measures.share import host_share, intervals_of, rows_in_window
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace

STEP = re.compile(r"^Optimizer\.step#(?P<name>\w+)\.step")
OF_LISTS = re.compile(r"^aten::_fused_(?:adamw?|sgd|adagrad)_$|^aten::_foreach_addc(?:div|mul)_$")
"""What runs once for each group; of several in one group the least frequent counts."""
ONE_TENSOR = re.compile(r"^\[\[\[[0-9, ]*\]\]")
"""The shapes of a call whose first argument is a list of one tensor."""
BYTES_MOVED = 7
"""Times the parameters' bytes: Adam reads weight, gradient and two moments, and writes three of them again."""
BYTES_PER_S = 4e9
"""Of copying, where it was not measured: what any machine that runs a model does."""
PER_TENSOR_NS = 5_000
"""What a tensor takes in a group of many, whatever its size: measured with 400 of them (2.0 ms a step)."""


@dataclass(frozen=True)
class _Grouped:
    """One optimizer's groups, and its steps in the window."""

    name: str
    groups: int
    settings: int
    steps: Ints
    over_lists: bool
    least_ns: float
    where: Where


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each such optimizer."""
    seen = trace.facts.optimizers if trace.facts else ()
    every = [_counted(trace, one) for one in seen] if seen else _shown(trace)
    for found in every:
        part = host_share(trace, found.steps)
        if found.groups >= limits["groups"] and found.settings < found.groups and part >= limits["share"]:
            yield _sighting(trace, found, part)


def _sighting(trace: Trace, found: _Grouped, part: float) -> Sighting:
    span = window(trace)
    unit = span.unit if span else "step"
    would_do = f"{found.settings} group{' would' if found.settings == 1 else 's would'} do"
    once_each = ", and its lists of tensors hold one each" if found.over_lists else ""
    return Sighting(
        message=f"{found.name} has {found.groups} groups of a single tensor{once_each}; {would_do}. "
        f"Its steps take {part:.0%} of the {unit}.",
        where=found.where,
        evidence={"groups": found.groups, "settings": found.settings, "share": part, "over_lists": found.over_lists},
        intervals_ns=intervals_of(trace, found.steps),
        edit=Edit(keep={row: _kept(trace, found, row) for row in found.steps.tolist()}) if found.over_lists else None,
        basis="the optimizer's time in as few groups as would do",
    )


def _counted(trace: Trace, optimizer: OptimizerFacts) -> _Grouped:
    """As our capture saw them; only the groups of a single tensor can be merged."""
    others = optimizer.groups - optimizer.lone_groups
    steps = _steps(trace, optimizer.name)
    speed = (trace.facts.copy_bytes_per_s if trace.facts else None) or BYTES_PER_S
    return _Grouped(
        name=optimizer.name,
        groups=optimizer.lone_groups,
        settings=max(optimizer.settings - others, 1),
        steps=steps,
        over_lists=len(_list_calls(trace, steps)) > 0,
        least_ns=optimizer.parameter_bytes * BYTES_MOVED / speed * 1e9 + optimizer.tensors * PER_TENSOR_NS,
        where=Where(
            file=optimizer.file or None, line=optimizer.line or None, op=f"Optimizer.step#{optimizer.name}.step"
        ),
    )


def _shown(trace: Trace) -> list[_Grouped]:
    """As the calls over lists of one tensor show them; calls with the same options could be one."""
    found = []
    for name in _names(trace):
        steps = _steps(trace, name)
        calls = _list_calls(trace, steps[:1], of_one=True)
        settings = len(np.unique(trace.events.text("Concrete Inputs").at(calls, -1)))
        where, least_ns = Where(op=f"Optimizer.step#{name}.step"), float(len(calls) * PER_TENSOR_NS)
        found.append(_Grouped(name, len(calls), settings, steps, over_lists=True, least_ns=least_ns, where=where))
    return found


def _names(trace: Trace) -> list[str]:
    matches = [STEP.match(name) for name in trace.events.names_at(trace.rows_named(STEP.match, ("user_annotation",)))]
    return list(dict.fromkeys(found["name"] for found in matches if found))


def _steps(trace: Trace, name: str) -> Ints:
    marks = trace.rows_named(f"Optimizer.step#{name}.step".__eq__, ("user_annotation",))
    return rows_in_window(trace, marks)


def _list_calls(trace: Trace, steps: Ints, *, of_one: bool = False) -> Ints:
    """The steps' calls of the implementation over lists that runs least often.

    `of_one`: only those over a list of one tensor, where shapes tell.
    """
    calls = trace.rows_named(OF_LISTS.match, ("cpu_op",))
    calls = calls[np.isin(outermost_named(trace, calls, STEP.match), steps)]
    if of_one:
        shapes = trace.events.text("Input Dims")
        one = np.array([*(bool(ONE_TENSOR.match(text)) for text in shapes.table or ()), False], np.bool_)
        calls = calls[one[shapes.at(calls, -1)]]
    codes, counts = np.unique(trace.events.name[calls], return_counts=True)
    return calls[trace.events.name[calls] == codes[counts.argmin()]] if len(codes) else calls


def _kept(trace: Trace, found: _Grouped, row: int) -> float:
    took = max(int(trace.events.dur_ns[row]), 1)
    return min(1.0, max(found.settings / found.groups, found.least_ns / took))


RULE = Rule(
    code="OPT005",
    name="one-group-per-tensor",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "groups": Threshold(16, "groups", "a handful of heads or scales with options of their own is usual"),
        "share": Threshold(0.02, "share of the step", "of an optimizer that takes less nothing is to be won"),
    },
)
