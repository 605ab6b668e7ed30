"""How many bytes the script's tensors hold at one moment."""

from __future__ import annotations

import contextlib
import gc
from typing import Any


def living_bytes(torch: Any) -> int:
    """Bytes of all distinct storages behind the tensors that Python can reach, garbage collected first.

    What only the autograd graph holds is not reachable, and not counted.
    """
    gc.collect()
    sizes: dict[int, int] = {}
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.Tensor):  # not isinstance, which would ask a proxy for its class
            continue
        with contextlib.suppress(Exception):  # a tensor without storage: sparse, fake, half made
            storage = thing.untyped_storage()
            if storage.device.type != "meta":
                sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
