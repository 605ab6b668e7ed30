"""The program of a graph's trials: one run of the graph after the other, for as long as it is let.

It is a script like a user's: torch is imported first, which is what wakes our session, and each run is a step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """`words`: the graph's file, and the sizes that were wished for."""
    import numpy
    import torch

    import profiler_doctor
    from profiler_doctor.analyzer.capture.child import onnx_inputs, onnx_session

    model = os.path.abspath(words[0])  # noqa: PTH100  # as ONNX Runtime takes it
    nodes = onnx_session.opened(onnx_session.runtime(), model, {}).get_inputs()
    arrays, _ = onnx_inputs.made(numpy, nodes, onnx_inputs.wishes(words[1:]))
    graph = onnx_session.as_module(model, arrays, {})
    inputs = [torch.from_numpy(array) for array in arrays.values()]
    with torch.inference_mode():
        while True:
            profiler_doctor.step()
            graph(*inputs)


if __name__ == "__main__":
    main(sys.argv[1:])
