"""The data loaders that the program iterates over: what they were told, and where."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection
from functools import wraps
from importlib import import_module
from threading import get_ident
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import Place, own_place
from profiler_doctor.analyzer.capture.child.ranges import mirror
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.facts import LoaderFacts

WORKERS_START = "DataLoader: workers start"
"""The range around it in the recording."""
MOST = 64
"""Loaders that differ in what is told of them; a program that makes a new one each epoch has one of them."""


TIMED = 500
"""Fetches without a profiler whose times are kept for each of them, the latest ones."""


class Loaders:
    """What was seen of them so far; loaders that are alike in all that is told are one."""

    def __init__(self, torch: Any) -> None:
        self._module = import_module("torch.utils.data.dataloader")
        self._tensor = torch.Tensor
        self._places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()
        self._begun: dict[tuple[Any, ...], int] = {}
        self._keys: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()
        self._took_ns: dict[tuple[Any, ...], deque[int]] = {}
        self._loading_ns = 0
        self._depth = 0
        """Fetches under way on that thread, one inside the other."""
        self._asking = -1
        """The thread that steps: what others fetch for it costs it nothing."""

    def install(self) -> tuple[Undo, ...]:
        """Watch loaders from now on; returns what stops that, save for the timing of fetches, which goes on."""
        replaced(self._module._BaseDataLoaderIter, "__next__", self._timing)
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
                dataset=key[0],
                samples=key[1],
                in_memory=key[2],
                batch_size=key[3],
                workers=key[4],
                persistent=key[5],
                own_collate=key[6],
                iterators=iterators,
                fetch_ns=_median(self._took_ns.get(key, [0])),
                file=key[7][0],
                line=key[7][1],
            )
            for key, iterators in self._begun.items()
        )

    def spent_ns(self) -> int:
        """Time that this thread has spent in fetching batches since it last asked; the last fetch of a loader, which
        gives none, is one of them."""
        spent_ns, self._loading_ns, self._asking = self._loading_ns, 0, get_ident()
        return spent_ns

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
            iterator = begin(loader)
            self._keys[iterator] = key
            return iterator

        return begun

    def _timing(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fetch)
        def fetched(iterator: Any) -> Any:
            own = get_ident() == self._asking
            self._depth += own
            begun_ns = time.perf_counter_ns()
            try:
                batch = fetch(iterator)
            finally:
                took_ns = time.perf_counter_ns() - begun_ns
                self._depth -= own
                self._loading_ns += took_ns if own and not self._depth else 0
            if mirror.open is None and iterator in self._keys:
                self._took_ns.setdefault(self._keys[iterator], deque(maxlen=TIMED)).append(took_ns)
            return batch

        return fetched

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


def _median(values: Collection[int]) -> int:
    """Without the module `statistics`, which torch does not load and the user's project may have one of its own of."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
