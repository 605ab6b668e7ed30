"""Whether two recordings may be compared: the same kind of device, the same work. Else a sentence says what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profiler_doctor.analyzer.comparison import Comparison, Side, lined_up
from profiler_doctor.analyzer.errors import NotComparable

LEAST_SHARED = 0.5
"""Of the op names of both, or of their calls: two recordings of one program share 0.57 and more in the traces that we
have, two programs 0.45 and less (transformers among themselves more; those are told apart by their modules)."""
MOST_WORK = 1.5
"""Times as many operations in matrix products: recomputing activations makes 4/3, a doubled batch 2."""
COMPILED = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
WHERE = {
    "gpu": "holds work of a GPU",
    "cpu": "holds none and shows no GPU",
    "unrecorded": "drove a GPU whose work was not recorded",
}


def compare(before: Side, after: Side) -> Comparison:
    """Line two sides up. Raises NotComparable with what differs where their times say nothing about a change."""
    for reason in _reasons(before, after):
        raise NotComparable(f"{before.name} and {after.name} are not comparable: {reason}")
    return lined_up(before, after, tuple(_notes(before, after)))


def _reasons(before: Side, after: Side) -> Iterator[str]:
    if before.ran_on != after.ran_on:
        yield f"the first {WHERE[before.ran_on]}, the second {WHERE[after.ran_on]}."
    for which, side in (("first", before), ("second", after)):
        if not side.tables["ops"] and not side.tables["kernels"]:
            yield f"the {which} holds neither ops nor kernels."
    if before.devices and after.devices and before.devices.isdisjoint(after.devices):
        yield (
            f"the devices differ, {_list(before.devices)} and {_list(after.devices)}, so that times say nothing about "
            "the program. Record both on the same kind of device."
        )
    yield from _other_work(before, after)


def _other_work(before: Side, after: Side) -> Iterator[str]:
    named = _same_modules(before, after)
    if named is False:
        yield f"the models differ, {_list(before.roots)} and {_list(after.roots)}: these are two programs, not one."
    if _compiled(before) != _compiled(after):
        return  # the compiler takes ops away and gives others new names
    if named is None and _shared(before, after) < LEAST_SHARED:
        one, two = before.tables["ops"].keys(), after.tables["ops"].keys()
        yield (
            f"they share {len(one & two)} of {len(one | two)} op names and few of the calls: these are two programs, "
            "not one."
        )
    yield from _other_amount(before, after)


def _other_amount(before: Side, after: Side) -> Iterator[str]:
    if not (before.steps and after.steps and before.product_flops and after.product_flops):
        return
    one, two = before.product_flops / before.steps, after.product_flops / after.steps
    if max(one, two) / min(one, two) >= MOST_WORK:
        yield (
            f"a step of the first computes {one:.3g} operations in matrix products and convolutions, one of the second "
            f"{two:.3g}: the batch, the shapes or the model differ. Record both with the same input."
        )


def _same_modules(before: Side, after: Side) -> bool | None:
    """Whether the outermost module of one is somewhere in the other (it may be wrapped there); None: not known."""
    if not before.roots or not after.roots:
        return None
    return bool(before.roots & _classes(after) or after.roots & _classes(before))


def _classes(side: Side) -> set[str]:
    parts = {part for path in side.tables["modules"] for part in path.split("/")}
    return {part.rpartition("_")[0] or part for part in parts} | side.roots


def _shared(before: Side, after: Side) -> float:
    """The larger one of the shares of op names and of calls (per step) that both have; 1 where one has no ops."""
    if not before.tables["ops"] or not after.tables["ops"]:
        return 1.0
    names, every = (
        before.tables["ops"].keys() & after.tables["ops"].keys(),
        before.tables["ops"].keys() | after.tables["ops"].keys(),
    )
    if before.cut or after.cut:  # only the top rows of one: what is missing may be further down
        return len(names) / min(len(before.tables["ops"]), len(after.tables["ops"]))
    one, two = _calls(before), _calls(after)
    both = sum(min(one[name], two[name]) for name in names)
    return max(len(names) / len(every), both / sum(max(one.get(name, 0), two.get(name, 0)) for name in every))


def _calls(side: Side) -> Mapping[str, float]:
    return {name: amount.count / max(side.steps, 1) for name, amount in side.tables["ops"].items()}


def _compiled(side: Side) -> bool:
    """Whether part of the program was compiled, so that its ops have other names."""
    return any(name.startswith(COMPILED) for name in side.tables["ops"])


def _notes(before: Side, after: Side) -> Iterator[str]:
    """What the reader should know before believing a difference."""
    sides = (("the first", before), ("the second", after))
    silent = [which for which, side in sides if not side.devices and side.ran_on != "cpu"]
    if silent:
        whose = "Neither names its device" if len(silent) == 2 else f"{silent[0].capitalize()} does not name its device"
        yield f"{whose}; that both ran on the same kind is for you to know."
    if before.ran_on == "unrecorded":
        yield "The GPU's work was recorded in neither: only host times are compared."
    for which, side in sides:
        if side.cut:
            yield f"Of {which} only the top rows of {_list(side.cut)} are known; what is missing may be below them."
    if bool(before.steps) != bool(after.steps):
        yield "Only one has marked steps: whole recordings are compared, and the longer one looks slower."
    if _compiled(before) != _compiled(after):
        yield "Only one is compiled: its ops and kernels have other names, so most rows are added or removed."
    if not before.tables["modules"] or not after.tables["modules"]:
        yield "Modules are not compared: that needs Python stacks in both recordings."
    yield "One recording of each, with the profiler's own cost in it: `profiler-doctor run` proves a cure by turns."


def _list(names: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(names))
