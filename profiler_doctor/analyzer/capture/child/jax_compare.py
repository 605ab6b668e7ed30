"""Whether the treated function still gives the same answers: its calls held against calls of the user's own function.

Arrays of JAX never change, so the function is simply called once more on the same arguments; what could change
(NumPy arrays, lists, dicts) is copied first, and compared after the call as well. A compiled function may use up what
it is given (`donate_argnums`), so all it is given is a copy. A counter, a random state or a
print that tracing freezes shows at the second compared call, or on inputs with other values.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

from profiler_doctor.analyzer.capture.child.compare import Comparison
from profiler_doctor.analyzer.capture.child.generators import Generators
from profiler_doctor.analyzer.capture.child.jax_outside import state_outside, why_not_frozen
from profiler_doctor.analyzer.capture.child.printing import Printing

TOLERANCES = {"float64": 1e-10, "complex128": 1e-10, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2}
"""Relative L2 by type, as for torch; a fused program adds up in another order."""
SMALLER_FLOATS = 2e-2
"""... for bfloat16 and the 8-bit types."""

RESTLESS = 0.01
"""Relative difference of two untreated runs from which on nothing can be held against them."""

Leaves = dict[str, Any]


class JaxShadow:
    """The untreated function, to hold treated calls against."""

    def __init__(self, jax: Any, call: Callable[..., Any], allowed: float) -> None:
        self._jax = jax
        self._real = call
        self._allowed = allowed
        self._noise: dict[str, float] = {}

    def applied(self) -> Comparison:
        """Treating a function changes nothing by itself."""
        return Comparison(True)

    def compared(
        self, treated: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], *, thorough: bool
    ) -> tuple[Any, Comparison]:
        """Make the program's own call with `treated`, and hold it against the untreated function.

        `thorough`: learn the program's own noise, and compare on other values too.
        """
        given, generators = (args, dict(kwargs)), Generators.now(None)
        frozen, before = why_not_frozen(self._real), state_outside(self._real)
        try:
            expected = self._seen(self._real, copied(self._jax, given))[1]
            moved, after = Generators.now(None), state_outside(self._real)
            generators.restore()
            if thorough:
                again = self._seen(self._real, copied(self._jax, given))[1]
                self._noise = {path: self._error(one, again.get(path)) for path, one in expected.items()}
        except Exception as error:
            generators.restore()
            why = f"the function could not be called once more: {type(error).__name__}: {error}"
            return treated(*args, **kwargs), Comparison(None, reasons=(why,))
        kept = copied(self._jax, given)
        others = self._on_other_values(treated, kept, generators) if thorough else Comparison(True)
        generators.restore()
        output, found = self._seen(treated, given, aloud=True)
        verdict = self._judged(expected, found).joined(others)
        restless = [path for path, noise in self._noise.items() if noise > RESTLESS]
        if restless:
            verdict = verdict.joined(Comparison(None, reasons=(f"{restless[0]} is another in every untreated run",)))
        if not moved.same(Generators.now(None)):
            verdict = verdict.joined(Comparison(False, reasons=("it draws random numbers differently",)))
        changed = next((f"it changes {name}" for name, mark in before.items() if after.get(name) != mark), frozen)
        if changed:
            verdict = verdict.joined(Comparison(False, reasons=(f"{changed}, which tracing does once for all calls",)))
        return output, verdict

    def _on_other_values(self, treated: Callable[..., Any], given: Any, generators: Generators) -> Comparison:
        """The same with every floating-point array negated; where the user's function takes them at all."""
        other = self._jax.tree_util.tree_map(self._negated, given)
        generators.restore()
        try:
            expected = self._seen(self._real, copied(self._jax, other))[1]
        except Exception:
            return Comparison(True)
        generators.restore()
        try:
            return self._judged(expected, self._seen(treated, other)[1], "on other values ")
        except Exception as error:
            said = f"on other values it fails: {type(error).__name__}"
            return Comparison(False, error=math.inf, reasons=(said,), inputs=1)

    def _seen(self, call: Callable[..., Any], given: Any, *, aloud: bool = False) -> tuple[Any, Leaves]:
        """The output, and all that the call left behind by name."""
        args, kwargs = given
        with Printing(aloud) as printing:
            output = self._jax.block_until_ready(call(*args, **kwargs))
        leaves = {**self._flat("output", output), **self._flat("arguments", given)}
        return output, {**leaves, "what it prints": printing.text}

    def _flat(self, name: str, tree: Any) -> Leaves:
        paths, structure = self._jax.tree_util.tree_flatten_with_path(tree)
        changing = [(path, leaf) for path, leaf in paths if name == "output" or not isinstance(leaf, self._jax.Array)]
        found = {f"{name}{self._jax.tree_util.keystr(path)}": self._kept(leaf) for path, leaf in changing}
        return {**found, f"structure of {name}": str(structure)}

    def _kept(self, leaf: Any) -> Any:
        """What a leaf holds now; of a random key its numbers."""
        if isinstance(leaf, self._jax.Array):
            of_keys = self._jax.numpy.issubdtype(leaf.dtype, self._jax.dtypes.prng_key)
            return self._jax.random.key_data(leaf) if of_keys else leaf
        return copied(self._jax, leaf)

    def _judged(self, expected: Leaves, found: Leaves, where: str = "") -> Comparison:
        errors = {path: self._error(one, found.get(path)) for path, one in expected.items()}
        allowed = {path: max(self._allowed, self._tolerance(path, one)) for path, one in expected.items()}
        wrong = [path for path, error in errors.items() if not error <= allowed[path]]
        reasons = tuple(f"{where}{path}" for path in (*wrong, *(set(found) - set(expected))))
        return Comparison(
            equal=not reasons,
            error=max((error for error in errors.values()), default=0.0),
            tolerance=max(allowed.values(), default=0.0),
            reasons=reasons,
            inputs=1,
        )

    def _tolerance(self, path: str, leaf: Any) -> float:
        noise, kind = 4.0 * self._noise.get(path, 0.0), str(getattr(leaf, "dtype", ""))
        own = TOLERANCES.get(kind, SMALLER_FLOATS if "float" in kind else 0.0)
        if isinstance(leaf, float):
            own = TOLERANCES["float32"]  # a traced Python float is one of these
        return max(own, noise if math.isfinite(noise) else 0.0)

    def _error(self, expected: Any, found: Any) -> float:
        """Relative L2; infinite where type, shape or the places of NaN differ, or what is no number does."""
        numbers = isinstance(expected, int | float | complex) or hasattr(expected, "dtype")
        if not numbers or found is None or isinstance(found, str):
            return 0.0 if _same(expected, found) else math.inf
        import numpy

        one, other = numpy.asarray(expected), numpy.asarray(found)
        typed = hasattr(expected, "dtype") and one.dtype != other.dtype
        if typed or one.shape != other.shape:
            return math.inf
        if one.dtype.kind in "OUSV" and one.dtype.name not in ("bfloat16",):
            wide = one.dtype.kind == "V" and one.dtype.names is None
            if not wide:
                return 0.0 if bool((one == other).all()) else math.inf
        kind = numpy.complex128 if one.dtype.kind == "c" else numpy.float64
        return _apart(numpy, one.astype(kind), other.astype(kind))

    def _negated(self, leaf: Any) -> Any:
        import numpy

        floating = hasattr(leaf, "dtype") and self._jax.numpy.issubdtype(leaf.dtype, numpy.floating)
        return -leaf if floating else leaf


def copied(jax: Any, tree: Any) -> Any:
    """The same values in containers and arrays of their own: a compiled function may use up what it is given."""

    def leaf(value: Any) -> Any:
        if isinstance(value, jax.Array):
            return value.copy()
        return value if callable(value) else copy.deepcopy(value)

    return jax.tree_util.tree_map(leaf, tree)


def _apart(numpy: Any, one: Any, other: Any) -> float:
    same = (one == other) | (numpy.isnan(one) & numpy.isnan(other))
    if bool(same.all()):
        return 0.0
    size = float(numpy.sqrt((numpy.abs(numpy.where(same, 0, other - one)) ** 2).sum()))
    scale = float(numpy.sqrt((numpy.abs(numpy.where(numpy.isfinite(one), one, 0)) ** 2).sum()))
    return size / scale if scale and math.isfinite(size) else math.inf


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # what cannot be compared is told by its identity
        return one is other
