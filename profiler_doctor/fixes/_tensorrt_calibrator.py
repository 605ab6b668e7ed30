"""The model's own inputs, shown to TensorRT so that it finds the range of every activation for 8 bits.

The calibrator's class is made when the package is there, for it must inherit from one of the package's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CALIBRATION_FILE = "calibration.cache"
"""Beside the engine: the ranges that were found, read instead of the inputs when the engine is built anew."""


def calibrator(tensorrt: Any, inputs: Mapping[str, Any], file: Path) -> Any:
    """An entropy calibrator of one batch. `inputs`: the name in the graph → the tensor, on the GPU.

    The tensors must live until the engine is built: the builder is told their addresses.
    Source: https://docs.nvidia.com/deeplearning/tensorrt/archives/tensorrt-860-ea/api/c_api/classnvinfer1_1_1_i_int8_entropy_calibrator2.html
    """

    class Calibrator(tensorrt.IInt8EntropyCalibrator2):  # type: ignore[misc]  # known at run time only
        def __init__(self) -> None:
            tensorrt.IInt8EntropyCalibrator2.__init__(self)  # the binding asks for this very form
            self._batches = [{name: tensor.detach().contiguous() for name, tensor in inputs.items()}]
            self._shown: list[Any] = []

        def get_batch_size(self) -> int:
            return next((int(tensor.shape[0]) for tensor in inputs.values() if tensor.dim()), 1)

        def get_batch(self, names: Sequence[str]) -> list[int] | None:
            if not self._batches:
                return None
            batch = self._batches.pop()
            self._shown.append(batch)  # kept alive
            return [batch[name].data_ptr() for name in names]

        def read_calibration_cache(self) -> bytes | None:
            return file.read_bytes() if file.exists() else None

        def write_calibration_cache(self, cache: Any) -> None:
            part = file.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(bytes(cache))
            part.replace(file)

    return Calibrator()
