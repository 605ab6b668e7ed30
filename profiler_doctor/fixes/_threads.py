"""A ceiling on the threads of one op, for the process and for the script's own calls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def environment(ceiling: int) -> Mapping[str, str]:
    """The variables that libraries read at their start; a lower number of the user's own stays."""
    return {name: str(_capped(os.environ.get(name, ""), ceiling)) for name in VARIABLES}


@contextmanager
def at_most(ceiling: int) -> Iterator[None]:
    """Cap the number in force and every `torch.set_num_threads` to come; at the end, what was asked for is given."""
    import torch

    set_num_threads, asked = torch.set_num_threads, torch.get_num_threads()

    def capped(nthreads: int) -> None:
        nonlocal asked
        asked = nthreads
        set_num_threads(min(nthreads, ceiling))

    capped(asked)
    torch.set_num_threads = capped
    try:
        yield
    finally:
        torch.set_num_threads = set_num_threads
        set_num_threads(asked)


def _capped(asked: str, ceiling: int) -> int:
    return min(int(asked), ceiling) if asked.isdigit() and int(asked) > 0 else ceiling
