"""The random numbers of the process: where each generator stands, and how to put it back there."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Generators:
    """The state of torch's, Python's and (where it is loaded) numpy's global generators at one moment.

    `torch` None: the program is one of another package, without global generators of its own.
    """

    torch: Any
    own: Any
    on_gpu: tuple[Any, ...]
    pythons: tuple[Any, ...]
    numpys: tuple[Any, ...] | None

    @staticmethod
    def now(torch: Any) -> Generators:
        """As they stand."""
        numpy = sys.modules.get("numpy.random")
        on_gpu = tuple(torch.cuda.get_rng_state_all()) if torch and torch.cuda.is_initialized() else ()
        numpys = None if numpy is None else numpy.get_state()
        return Generators(torch, torch and torch.get_rng_state(), on_gpu, random.getstate(), numpys)

    def restore(self) -> None:
        """Put them back; the next random numbers are those that followed this moment."""
        if self.torch:
            self.torch.set_rng_state(self.own)
        if self.on_gpu:
            self.torch.cuda.set_rng_state_all(list(self.on_gpu))
        random.setstate(self.pythons)
        if self.numpys is not None:
            sys.modules["numpy.random"].set_state(self.numpys)

    def same(self, other: Generators) -> bool:
        """Whether both stand at the same place."""
        own = [(self.own, other.own)] if self.torch else []
        pairs = [*own, *zip(self.on_gpu, other.on_gpu, strict=False)]
        if any(bool((one != two).any()) for one, two in pairs) or self.pythons != other.pythons:
            return False
        if self.numpys is None or other.numpys is None:
            return True
        return self.numpys[2:] == other.numpys[2:] and bool((self.numpys[1] == other.numpys[1]).all())
