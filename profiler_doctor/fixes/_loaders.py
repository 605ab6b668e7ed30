"""Data loaders made with other settings than the script gives: what the loader fixes have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

from profiler_doctor.fixes._patched import patched

Settings = dict[str, Any]
"""The arguments of a DataLoader by name, defaults included."""


@contextmanager
def loaders(changed: Callable[[Settings], Settings]) -> Iterator[None]:
    """Every DataLoader that the script makes is made with the settings that `changed` adds to its own."""
    from torch.utils.data import DataLoader

    def by(original: Callable[..., None]) -> Callable[..., None]:
        expected = signature(original)

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            call = expected.bind(self, *args, **kwargs)
            call.apply_defaults()
            more = changed(dict(call.arguments))
            call = expected.bind(self, *args, **kwargs)  # defaults stay unsaid: some may not be said together
            call.arguments.update(more)
            original(*call.args, **call.kwargs)

        return init

    with patched(DataLoader, "__init__", by):
        yield
