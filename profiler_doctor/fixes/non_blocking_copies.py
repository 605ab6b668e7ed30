"""Send tensors to the GPU from page-locked memory, without waiting for them.

What it does: `tensor.to("cuda")` and `tensor.cuda()` of a tensor on the host first put it into page-locked memory, and
then copy it with `non_blocking=True`: the script goes on while the copy runs.

When it applies: a script that waits for its inputs to be copied. Putting a tensor into page-locked memory is a copy
too; a loader with `pin_memory=True` does that on a thread of its own.

How results may change: not at all, as long as the script does not write to the tensor on the host right after.

Source: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._cuda import on_cuda
from profiler_doctor.fixes._patched import patched


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    import torch

    with patched(torch.Tensor, "to", _to), patched(torch.Tensor, "cuda", _pinned_first):
        yield


def _to(original: Callable[..., Any]) -> Callable[..., Any]:
    sent = _pinned_first(original)

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = kwargs.get("device", args[0] if args else None)
        return (sent if _is_gpu(place) else original)(self, *args, **kwargs)

    return to


def _pinned_first(original: Callable[..., Any]) -> Callable[..., Any]:
    def sent(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.device.type != "cpu" or self.requires_grad:
            return original(self, *args, **kwargs)
        if len(args) > 1 and isinstance(args[-1], bool):  # the script says itself whether to wait
            return original(self, *args, **kwargs)
        return original(self.pin_memory(), *args, **{**kwargs, "non_blocking": True})

    return sent


def _is_gpu(place: Any) -> bool:
    kind = getattr(place, "type", place)  # a torch.device, or what stands for one
    return kind.startswith("cuda") if isinstance(kind, str) else type(kind) is int


FIX = Fix(
    name="non-blocking-copies",
    doc=__doc__,
    cures=("CPY001", "CPY002"),
    snippet='images = images.pin_memory().to("cuda", non_blocking=True)\n',
    changes_numbers="",
    rank=1,
    clock="wall",
    applies=on_cuda,
    set_up=_set_up,
)
