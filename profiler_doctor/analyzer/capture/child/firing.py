"""Which of the user's forward hooks fire in a call: a treatment that works on a copy must not lose them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any

TABLES = ("_forward_hooks", "_forward_pre_hooks")


class Firing:
    """While it lasts, every forward hook of a module and its parts is counted, in copies of the module too."""

    def __init__(self, module: Any) -> None:
        self._places: list[tuple[MutableMapping[int, Any], int, str]] = [
            (vars(part)[table], key, name or "the model itself")
            for name, part in module.named_modules()
            for table in TABLES
            for key in vars(part)[table]
        ]
        self._fired: Counter[str] = Counter()
        self._hooks: list[Callable[..., Any]] = []

    def __enter__(self) -> Firing:
        self._hooks = [table[key] for table, key, _ in self._places]
        for (table, key, name), hook in zip(self._places, self._hooks, strict=True):
            table[key] = _Counted(hook, name, self._fired)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for (table, key, _), hook in zip(self._places, self._hooks, strict=True):
            if key in table:
                table[key] = hook

    def taken(self) -> frozenset[str]:
        """Names of the parts whose hooks have fired since the last call."""
        names = frozenset(self._fired)
        self._fired.clear()
        return names


class _Counted:
    def __init__(self, hook: Callable[..., Any], name: str, fired: Counter[str]) -> None:
        self._hook, self._name, self._fired = hook, name, fired

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._fired[self._name] += 1
        return self._hook(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Counted:
        return _Counted(copy.deepcopy(self._hook, memo), self._name, self._fired)
