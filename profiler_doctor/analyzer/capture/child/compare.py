"""Whether the treated model still gives the same answers, told in the treated process on the program's own inputs.

At a call of the model, copies of it are run first, from the same random state and the same buffers: twice, so that the
program's own noise is known. Then the treated model is run, and everything a call can leave behind is compared:
outputs, arguments changed in place, buffers, plain attributes, what was printed, and how far the random generators
moved on. Inputs with other values, made from the captured ones, tell a branch or a counter that was baked in; where
the program trains, the gradients of those calls are compared too, for a step changes the weights by them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from profiler_doctor.analyzer.capture.child import difference, gradients
from profiler_doctor.analyzer.capture.child.firing import Firing
from profiler_doctor.analyzer.capture.child.generators import Generators
from profiler_doctor.analyzer.capture.child.keeping import Kept, attributes, state_of
from profiler_doctor.analyzer.capture.child.leaves import Leaves, duplicate, flat, perturb, tensors
from profiler_doctor.analyzer.capture.child.printing import Printing
from profiler_doctor.analyzer.capture.child.users_function import is_function, other_values_outside

SLOW_CALL_S = 1.5
"""From here on a second set of other values is not worth its time."""
PARTS = ("output", "arguments", "state", "printed")

Call = Callable[..., Any]


@dataclass(frozen=True)
class Comparison:
    """What one or several comparisons found. `equal` None: it could not be told."""

    equal: bool | None
    error: float = 0.0
    """The largest relative L2 difference of any tensor; infinite where structures, shapes or NaNs differ."""
    tolerance: float = 0.0
    reasons: tuple[str, ...] = ()
    """What differs, or why it cannot be told; a phrase each."""
    notes: tuple[str, ...] = ()
    inputs: int = 0
    """How many different sets of input values were compared."""

    def joined(self, other: Comparison) -> Comparison:
        """Both together: unequal if either is, unknown if either is."""
        verdicts = (self.equal, other.equal)
        return Comparison(
            equal=False if False in verdicts else None if None in verdicts else True,
            error=max(self.error, other.error),
            tolerance=max(self.tolerance, other.tolerance),
            reasons=tuple(dict.fromkeys(self.reasons + other.reasons)),
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
            inputs=self.inputs + other.inputs,
        )


@dataclass(frozen=True)
class Seen:
    """All that one call left behind, copied at once."""

    output: Leaves
    arguments: Leaves
    state: Leaves
    printed: Leaves
    generators: Generators
    took_s: float
    gradients: gradients.Gradients | None = None


@dataclass(frozen=True)
class Terms:
    """What a treatment is held to."""

    allowed: float = 0.0
    """The relative L2 that it may reach beyond the dtype's own."""
    watch_hooks: bool = True
    """See whether the user's forward hooks still fire. A compiler must not see the watching: it would compile it in."""
    trains: bool = False
    """Compare gradients too."""


NO_TERMS = Terms()


class Shadow:
    """Untreated copies of one root module, to hold its treated calls against. Made before the treatment begins.

    `untreated` is the context that copies run in.
    """

    def __init__(
        self,
        torch: Any,
        module: Any,
        terms: Terms = NO_TERMS,
        *,
        untreated: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.torch = torch
        self.module = module
        self.terms = terms
        self.untreated = untreated
        self.strides = {name: weight.stride() for name, weight in module.named_parameters()}
        self._noise: dict[str, float] = {}
        self._met: Leaves | None = None
        self._before = state_of(torch, module)

    def compared(self, treated: Call, args: Any, kwargs: Mapping[str, Any], thorough: bool) -> tuple[Any, Comparison]:
        """Make the program's own call with `treated`, and hold it against copies. Returns its output as well.

        `thorough`: learn the program's own noise, and compare on other values too; once is enough.

        Raises:
            Exception: what `treated` raises on the program's own arguments.
        """
        arguments, generators = (args, dict(kwargs)), Generators.now(self.torch)
        try:
            reference = self._run_copy(arguments)
            if thorough:
                generators.restore()
                self._learn_noise(reference, self._run_copy(arguments))
        except Exception as error:
            generators.restore()
            return treated(*args, **kwargs), Comparison(None, reasons=(f"no copy of it could be run: {_said(error)}",))
        if is_function(self.module) and not tensors(self.torch, reference.output):
            nothing = Comparison(None, reasons=("the function returns no tensor to compare",))
            return treated(*args, **kwargs), nothing
        others = self._others(treated, arguments, generators, reference.took_s) if thorough else Comparison(True)
        generators.restore()
        output, seen = self._run(treated, self.module, arguments)
        return output, replace(self._judged(reference, seen), inputs=self._is_new(reference)).joined(others)

    def applied(self) -> Comparison:
        """Whether the treatment left alone, while it was applied, what the module keeps from call to call."""
        now = state_of(self.torch, self.module)
        both = {path: then for path, then in self._before.items() if path in now}
        found = difference.errors(self.torch, both, {path: now[path] for path in both})
        changed = [path for path, error in found.items() if error]
        if not changed:
            return Comparison(True)
        return Comparison(False, reasons=(f"applying it changed {', '.join(changed[:3])}",))

    def _learn_noise(self, one: Seen, other: Seen) -> None:
        """How far two untreated runs are apart, leaf by leaf; infinite: that leaf cannot be held to anything."""
        for part in PARTS:
            found = difference.errors(self.torch, getattr(one, part), getattr(other, part))
            self._noise |= {path: error for path, error in found.items() if error}

    def _others(self, treated: Call, arguments: Any, generators: Generators, call_s: float) -> Comparison:
        """The treated model on values that the program did not give it; the module is put back afterwards."""
        total, kept = Comparison(True), Kept(self.torch, self.module)
        elsewhere = partial(other_values_outside, self.torch, self.module)
        for negate in (True, False) if call_s < SLOW_CALL_S else (True,):
            with Firing(self.module) as firing, ExitStack() as around:
                try:
                    values = duplicate(self.torch, arguments)
                    if not perturb(self.torch, values, negate) + around.enter_context(elsewhere(negate)):
                        continue
                    generators.restore()
                    reference = self._run_copy(values, self.terms.trains)
                except Exception as error:  # such values make no sense to this model: that says nothing of the fix
                    note = f"other values were not possible: {_said(error)}"
                    total = total.joined(Comparison(True, notes=(note,)))
                    continue
                expected = firing.taken()
                generators.restore()
                total = total.joined(self._on_other_values(treated, values, reference))
                kept.restore()
                total = total.joined(self._hooks_judged(expected - firing.taken()))
        return total

    def _on_other_values(self, treated: Call, values: Any, reference: Seen) -> Comparison:
        try:
            _, seen = self._run(treated, self.module, values, differentiate=reference.gradients is not None)
        except Exception as error:
            return Comparison(False, math.inf, reasons=(f"it fails on other input values: {_said(error)}",))
        return replace(self._judged(reference, seen), inputs=int(difference.tells(self.torch, reference.output)))

    def _hooks_judged(self, silent: frozenset[str]) -> Comparison:
        if not silent or not self.terms.watch_hooks:
            return Comparison(True)
        return Comparison(False, reasons=(f"forward hooks no longer fire on {', '.join(sorted(silent)[:3])}",))

    def _run_copy(self, arguments: Any, differentiate: bool = False) -> Seen:
        """One call of an untreated copy, its weights laid out in memory as they were at first."""
        held = [value for part in self.module.modules() for _, value in attributes(self.torch, part)]
        module, values = duplicate(self.torch, (self.module, arguments), also=held)
        for name, weight in module.named_parameters():
            strides = self.strides.get(name, weight.stride())
            if weight.stride() != strides:
                weight.data = weight.data.new_empty_strided(weight.shape, strides).copy_(weight.data)
        with self.untreated():
            return self._run(module, module, values, differentiate)[1]

    def _run(self, call: Call, module: Any, arguments: Any, differentiate: bool = False) -> tuple[Any, Seen]:
        args, kwargs = arguments
        with Printing(aloud=module is self.module) as printing:
            versions, begun = _versions(module), time.perf_counter()
            output = call(*args, **kwargs)
            took_s = time.perf_counter() - begun
        # a parameter that a call changes is rare, so only such are copied and compared
        changed = frozenset(name for name, version in _versions(module).items() if versions.get(name) != version)
        state, given = state_of(self.torch, module, changed), flat(self.torch, arguments, "argument")
        seen, printed = flat(self.torch, output, "output"), {"what it prints": printing.text}
        moved, slopes = Generators.now(self.torch), None
        if differentiate:
            slopes = gradients.gradients(self.torch, module, output)
        return output, Seen(seen, given, state, printed, moved, took_s, slopes)

    def _judged(self, reference: Seen, seen: Seen) -> Comparison:
        leaves = [*reference.output.values(), *reference.arguments.values(), *self.module.parameters()]
        tolerance = max(self.terms.allowed, difference.dtype_tolerance(self.torch, leaves))
        total = Comparison(True, tolerance=tolerance)
        for part in PARTS:
            expected, found = getattr(reference, part), getattr(seen, part)
            for path, error in difference.errors(self.torch, expected, found).items():
                total = total.joined(self._leaf_judged(path, error, tolerance, (expected.get(path), found.get(path))))
        if not reference.generators.same(seen.generators):
            total = total.joined(Comparison(False, reasons=("it draws random numbers differently",)))
        total = total.joined(self._gradients_judged(reference, seen, tolerance))
        other = difference.reordered(self.torch, reference.output, seen.output)
        return replace(total, notes=total.notes + tuple(f"{path} has another order in memory" for path in other))

    def _gradients_judged(self, reference: Seen, seen: Seen, tolerance: float) -> Comparison:
        error, where = gradients.difference(self.torch, reference.gradients, seen.gradients)
        if error <= gradients.allowed(tolerance):
            return Comparison(True)
        return Comparison(False, error, gradients.allowed(tolerance), (f"the gradient of {where} is another",))

    def _leaf_judged(self, path: str, error: float, tolerance: float, leaves: tuple[Any, Any]) -> Comparison:
        noise = self._noise.get(path, 0.0)
        if math.isinf(noise):
            said = f"{path} is another in every untreated run"
            hidden = None if path.startswith("output") else True
            return Comparison(hidden, reasons=(said,) if hidden is None else (), notes=(said,))
        allowed = max(tolerance, difference.NOISE_FACTOR * noise) if difference.inexact(self.torch, leaves[0]) else 0.0
        if error <= allowed:
            return Comparison(True, error, allowed)
        return Comparison(False, error, allowed, (difference.told(path, error, *leaves),))

    def _is_new(self, reference: Seen) -> int:
        """1 where these arguments are not those of the first comparison, or this is the first."""
        met, self._met = self._met, self._met or reference.arguments
        return int(met is None or any(difference.errors(self.torch, met, reference.arguments).values()))


def _versions(module: Any) -> dict[str, int]:
    return {name: weight._version for name, weight in module.named_parameters() if not weight.is_inference()}


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
