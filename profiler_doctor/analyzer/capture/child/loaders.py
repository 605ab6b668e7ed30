"""The data loaders that the program iterates over: what they were told, and where."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import Place, own_place
from profiler_doctor.analyzer.capture.child.ranges import mirror
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.facts import LoaderFacts

WORKERS_START = "DataLoader: workers start"
"""The range around it in the recording."""
MOST = 64
"""Loaders that differ in what is told of them; a program that makes a new one each epoch has one of them."""


class Loaders:
    """What was seen of them so far; loaders that are alike in all that is told are one."""

    def __init__(self, torch: Any) -> None:
        self._module = import_module("torch.utils.data.dataloader")
        self._tensor = torch.Tensor
        self._places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()
        self._begun: dict[tuple[Any, ...], int] = {}

    def install(self) -> tuple[Undo, ...]:
        """Watch loaders from now on; returns what stops that."""
        loader, workers = self._module.DataLoader, self._module._MultiProcessingDataLoaderIter
        return (
            replaced(loader, "__init__", self._making),
            replaced(loader, "__iter__", self._iterating),
            replaced(workers, "__init__", _starting),
        )

    def facts(self) -> tuple[LoaderFacts, ...]:
        """Each of them, in the order in which they were first begun."""
        return tuple(
            LoaderFacts(
                dataset=dataset,
                samples=samples,
                in_memory=in_memory,
                batch_size=batch_size,
                workers=workers,
                persistent=persistent,
                own_collate=own_collate,
                iterators=iterators,
                file=place[0],
                line=place[1],
            )
            for (dataset, samples, in_memory, batch_size, workers, persistent, own_collate, place), iterators in (
                self._begun.items()
            )
        )

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def made(loader: Any, *args: Any, **more: Any) -> None:
            make(loader, *args, **more)
            self._places[loader] = own_place(sys._getframe(1))

        return made

    def _iterating(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(begin)
        def begun(loader: Any) -> Any:
            key = self._told(loader)
            if key in self._begun or len(self._begun) < MOST:
                self._begun[key] = self._begun.get(key, 0) + 1
            return begin(loader)

        return begun

    def _told(self, loader: Any) -> tuple[Any, ...]:
        dataset = loader.dataset
        samples = _length(dataset)
        batched = loader.batch_sampler is not None
        return (
            type(dataset).__name__,
            samples,
            self._in_memory(dataset, samples),
            getattr(loader.batch_sampler, "batch_size", loader.batch_size) if batched else None,
            int(loader.num_workers),
            bool(loader.persistent_workers),
            loader.collate_fn is not self._module._utils.collate.default_collate and batched,
            self._places.get(loader, ("", 0)),
        )

    def _in_memory(self, dataset: Any, samples: int) -> bool:
        """Whether what it holds, or the dataset it is a part of holds, are tensors or arrays of its length."""
        if type(dataset).__name__ == "Subset":
            return self._in_memory(dataset.dataset, _length(dataset.dataset))
        held = list(getattr(dataset, "__dict__", {}).values())
        held += [
            one for several in held if isinstance(several, list | tuple) and len(several) <= MOST for one in several
        ]
        return samples > 0 and any(self._is_table(one) and len(one) == samples for one in (*held, dataset))

    def _is_table(self, value: Any) -> bool:
        numpy = sys.modules.get("numpy")
        tensor = issubclass(type(value), self._tensor) and value.dim() > 0
        return tensor or (numpy is not None and issubclass(type(value), numpy.ndarray) and value.ndim > 0)


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    def started(iterator: Any, loader: Any) -> None:
        opened = mirror.open(WORKERS_START) if mirror.open is not None else None
        try:
            start(iterator, loader)
        finally:
            if opened is not None:
                mirror.close(opened)

    return started


def _length(dataset: Any) -> int:
    """Only of what is cheap to ask: a class that has no length of its own may work one out."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return -1
