"""Fold batch normalisation into the convolution before it.

What it does: in inference a batch normalisation multiplies and shifts each channel by fixed numbers, which can just as
well stand in the convolution's weights and bias. It watches one call to learn which normalisation eats the output of
which convolution, and nothing else does, and folds those pairs in a copy of the model.

When it applies: the model is in eval mode and its weights no longer change. A pair is left alone where either side has
a forward hook, is called more than once, or shares its weights.

How results may change: by rounding (relative 3e-7 measured in float32).

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fusion.fuse_conv_bn_eval.html
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable
from profiler_doctor.fixes._nested import replaced
from profiler_doctor.fixes._standin import Standin, hooked, twin

Pair = tuple[str, str]
"""Names of a convolution and of the normalisation that eats its output."""


def _applies(machine: Machine) -> str | None:
    if machine.training:
        return "the script trains, and folded weights could not be trained"
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    pairs, hidden = _foldable(root)
    if not pairs:
        why = "every such pair has a forward hook that would be lost" if hidden else "no normalisation follows one"
        raise Unsuitable(f"no convolution can be folded: {why}")
    module = twin(root.module)
    parts = dict(module.named_modules())
    for convolution, norm in pairs:
        _fold(parts[convolution], parts[norm])
    yield Standin(module, module)


@dataclass
class _Watch:
    """One observed call: who made each tensor, and how many ops used it."""

    made: dict[int, tuple[str, Any]] = field(default_factory=dict)
    """`id` of a convolution's output → its name and the tensor itself, kept so that the id stays its own."""
    eaten: list[Pair] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def after_convolution(self, name: str) -> Callable[..., None]:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            self.calls[name] += 1
            self.made[id(output)] = (name, output)

        return hook

    def before_norm(self, name: str) -> Callable[..., None]:
        def hook(_module: Any, inputs: Any) -> None:
            self.calls[name] += 1
            maker = self.made.get(id(inputs[0])) if inputs else None
            if maker is not None:
                self.eaten.append((maker[0], name))

        return hook

    def used(self, tensor: Any) -> Any:
        if id(tensor) in self.made:
            self.uses[id(tensor)] += 1
        return tensor

    def only_eater(self, convolution: str) -> bool:
        """Whether a single op used the convolution's output."""
        outputs = [key for key, (name, _) in self.made.items() if name == convolution]
        return len(outputs) == 1 and self.uses[outputs[0]] == 1


def _foldable(root: Root) -> tuple[list[Pair], bool]:
    """The pairs to fold, and whether there are more that only their hooks protect."""
    module = copy.deepcopy(root.module)
    parts = dict(module.named_modules())
    watch = _observed(module, root)
    shared = Counter(id(weight) for part in parts.values() for weight in part._parameters.values())
    pairs, hidden = [], False
    for convolution, norm in watch.eaten:
        first, second = parts[convolution], parts[norm]
        single = watch.calls[convolution] == watch.calls[norm] == 1 and watch.only_eater(convolution)
        if not single or second.training or shared[id(first.weight)] > 1:
            continue
        if hooked(first) or hooked(second):
            hidden = True
            continue
        pairs.append((convolution, norm))
    return pairs, hidden


def _observed(module: Any, root: Root) -> _Watch:
    import torch
    from torch.utils import _python_dispatch

    watch = _Watch()
    any_mode: Any = _python_dispatch.TorchDispatchMode  # torch ships it without types

    class CountUses(any_mode):  # type: ignore[misc]
        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            replaced((args, kwargs or {}), torch.Tensor, watch.used)
            return op(*args, **(kwargs or {}))

    with _watching(module, watch), torch.no_grad(), CountUses():
        module(*root.args, **root.kwargs)
    return watch


@contextmanager
def _watching(module: Any, watch: _Watch) -> Iterator[None]:
    from torch import nn

    convolutions, norms = (nn.Conv1d, nn.Conv2d, nn.Conv3d), (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    handles = []
    for name, part in module.named_modules():
        if type(part) in convolutions:
            handles.append(part.register_forward_hook(watch.after_convolution(name)))
        elif type(part) in norms and part.running_mean is not None:
            handles.append(part.register_forward_pre_hook(watch.before_norm(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _fold(convolution: Any, norm: Any) -> None:
    """The normalisation's numbers into the convolution; the normalisation then passes its input on."""
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    weight, bias = fuse_conv_bn_weights(
        convolution.weight, convolution.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    convolution._parameters["weight"], convolution._parameters["bias"] = weight, bias
    norm.forward = _unchanged


def _unchanged(tensor: Any) -> Any:
    return tensor


FIX = Fix(
    name="fold-conv-bn",
    doc=__doc__,
    cures=("FUS005",),
    snippet="""\
from torch.nn.utils.fusion import fuse_conv_bn_eval

block.conv = fuse_conv_bn_eval(block.conv, block.bn)  # for each pair, in eval mode
block.bn = torch.nn.Identity()
""",
    changes_numbers="by rounding (3e-7 in float32)",
    rank=4,
    applies=_applies,
    treat=_treat,
    freezes=True,
)
