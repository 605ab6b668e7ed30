"""What is called in the place of a loop over samples: the loop's body for all samples at once, by `jax.vmap`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

FEWEST = 2
"""Samples."""


class Mapped:
    """Stands in for loops. What cannot be mapped is gone over one by one, as before."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self.mapped = 0
        """Loops that were mapped so far."""
        self.left = ""
        """Why the last one that was not mapped was not, as the end of a sentence."""

    def __call__(self, one: Callable[..., Any], sources: Sequence[Any], how: str, joining: Any) -> Any:
        """The results of `one` on what the sources hold side by side, as the loop would have given them."""
        batches = [self._batch(source) for source in sources]
        sizes = {self._size(batch) for batch in batches if batch is not None}
        if any(batch is None for batch in batches) or len(sizes) > 1 or min(sizes) < FEWEST:
            self.left = f"goes over {' and '.join(type(source).__name__ for source in sources)}, which is no batch"
            results = [one(*values) for values in zip(*sources, strict=False)]
            return results if joining is None else joining(results)
        self.mapped += 1
        results = self._jax.vmap(one)(*batches)
        if not self._jax.tree_util.tree_leaves(results):  # the same of each: nothing
            results = [results] * min(sizes)
            return results if joining is None else joining(results)
        return self._joined(results, how, joining)

    def _joined(self, results: Any, how: str, joining: Any) -> Any:
        numpy = self._jax.numpy
        array = self._jax.tree_util.all_leaves([results])
        if how == "sum" and joining is builtins.sum and array:
            return results.sum(0)
        if how == "stack" and array and joining in (numpy.stack, numpy.array, numpy.asarray):
            return results
        apart = list(results) if array else self._apart(results)
        return apart if joining is None else joining(apart)

    def _apart(self, results: Any) -> list[Any]:
        leaves, structure = self._jax.tree_util.tree_flatten(results)
        rows = zip(*leaves, strict=True)
        return [self._jax.tree_util.tree_unflatten(structure, row) for row in rows]

    def _batch(self, source: Any) -> Any:
        """What the loop goes over, as arrays of one more dimension; None where it is nothing of the kind."""
        numpy = self._jax.numpy
        if isinstance(source, range):
            return numpy.arange(source.start, source.stop, source.step)
        if hasattr(source, "dtype") and source.shape:
            return source
        if not isinstance(source, list | tuple) or not source:
            return None
        kinds = {str(self._jax.tree_util.tree_map(_kind, sample)) for sample in source}
        arrays = all(hasattr(leaf, "dtype") for leaf in self._jax.tree_util.tree_leaves(source))
        return (
            self._jax.tree_util.tree_map(lambda *rows: numpy.stack(rows), *source)
            if arrays and len(kinds) == 1
            else None
        )

    def _size(self, batch: Any) -> int:
        return int(self._jax.tree_util.tree_leaves(batch)[0].shape[0])


def _kind(leaf: Any) -> str:
    return f"{getattr(leaf, 'dtype', type(leaf).__name__)}{getattr(leaf, 'shape', '')}"
