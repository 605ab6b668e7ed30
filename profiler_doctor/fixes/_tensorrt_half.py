"""A module whose graph computes in float16 where that is safe: what TensorRT 11 takes in the place of a builder's flag.

Only the graph is another; the module's weights stay as they are. Its outputs come in the types that they had.
"""

from __future__ import annotations

from typing import Any


def in_half(module: Any) -> Any:
    """The module of rows under torch's autocast, which the exporter writes into the graph as casts."""
    import torch

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module
            self.training = False  # of this shell alone
            self.types: list[Any] = []

        def forward(self, *row: Any) -> Any:
            kind = row[0].device.type if row else "cuda"
            if not self.types:
                self.types = [tensor.dtype for tensor in self.inner(*row)]
            with torch.autocast(kind, dtype=torch.float16):
                outputs = self.inner(*row)
            return tuple(tensor.to(dtype) for tensor, dtype in zip(outputs, self.types, strict=True))

    return Half()
