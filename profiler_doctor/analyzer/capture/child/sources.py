"""Where marks come from beside module calls: optimizers, the script's own profiler, and named ranges."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from profiler_doctor.analyzer.capture.child.marks import Marks
from profiler_doctor.analyzer.capture.child.replacing import Undo, keep_from_compilers, replaced


def listen(torch: Any, marks: Marks) -> tuple[Undo, ...]:
    """Hear optimizer steps, `step()` of the script's own profiler, and ranges of the name the user gave.

    Returns what puts each of them back.
    """
    undo = [
        _optimizers(torch, marks),
        _optimizer_steps(torch.compiler.is_compiling, marks),
        _profiler_steps(torch, marks),
    ]
    if marks.plan.step_name is not None:
        undo.append(_named_ranges(torch, marks, marks.plan.step_name))
    return tuple(undo)


def _optimizers(torch: Any, marks: Marks) -> Undo:
    """An optimizer that exists will step, even if a few module calls come first."""

    def and_note(begin: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(begin)
        def begun(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            marks.optimizer_exists = True
            begin(optimizer, *args, **kwargs)

        return begun

    return replaced(torch.optim.Optimizer, "__init__", and_note)


def _optimizer_steps(is_compiling: Callable[[], bool], marks: Marks) -> Undo:
    serials: dict[int, str] = {}

    def after_step(optimizer: Any, *_call: Any) -> None:
        if is_compiling():
            return
        serial = serials.setdefault(id(optimizer), str(len(serials)))
        marks.names.setdefault(f"optimizer {serial}", type(optimizer).__name__)
        marks.optimizer_steps += 1
        marks.seen("optimizer", serial)

    keep_from_compilers(after_step, inside=True)
    handle = import_module("torch.optim.optimizer").register_optimizer_step_post_hook(after_step)
    return handle.remove  # type: ignore[no-any-return]


def _profiler_steps(torch: Any, marks: Marks) -> Undo:
    profile = torch.profiler.profile

    def and_mark(step: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(step)
        def stepped(profiler: Any) -> None:
            step(profiler)
            marks.seen("profiler", "")

        return stepped

    return replaced(profile, "step", and_mark)


def _named_ranges(torch: Any, marks: Marks, name: str) -> Undo:
    def and_mark(enter: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(enter)
        def entered(range_: Any) -> Any:
            if range_.name == name:
                marks.seen("range", "")
            return enter(range_)

        return entered

    return replaced(torch.autograd.profiler.record_function, "__enter__", and_mark)
