"""Why the host waits: each blocking call has one cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.wait_causes import wait_causes
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder


def waiting_under(folder: Path, ops: list[str], copy: str | None = None) -> Trace:
    """A stream synchronization inside the ops, outermost first; a copy is launched before it where one is named."""
    built = TraceBuilder().launch("kernel", (0, 2_000), (4_000, 100_000))
    for depth, name in enumerate(ops):
        built.op(name, 10_000 + depth * 100, 200_000 - depth * 200)
    if copy:
        built.launch(copy, (12_000, 2_000), (105_000, 2_000), bytes=8)
    return built.call("cudaStreamSynchronize", 15_000, 95_000).trace(folder)


BACK, THERE = "Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pageable -> Device)"


@pytest.mark.parametrize(
    ("ops", "copy", "cause", "under"),
    [
        (["aten::item", "aten::_local_scalar_dense"], BACK, "scalar", "aten::item"),
        (["aten::nonzero"], BACK, "shape", "aten::nonzero"),
        (["aten::index", "aten::nonzero"], BACK, "shape", "aten::index"),
        (
            ["aten::repeat_interleave", "aten::item", "aten::_local_scalar_dense"],
            BACK,
            "shape",
            "aten::repeat_interleave",
        ),
        (["aten::_unique2"], BACK, "shape", "aten::_unique2"),
        (["aten::index", "aten::to", "aten::_to_copy", "aten::copy_"], THERE, "upload", "aten::to"),
        (["aten::to", "aten::_to_copy", "aten::copy_"], BACK, "readback", "aten::to"),
        (["aten::copy_"], THERE, "upload", "aten::copy_"),
        (["aten::mm"], None, "other", "aten::mm"),
        (["my_range"], None, "other", "my_range"),
    ],
)
def test_the_ops_around_a_wait_say_why(
    tmp_path: Path, ops: list[str], copy: str | None, cause: str, under: str
) -> None:
    trace = waiting_under(tmp_path, ops, copy)

    [found] = wait_causes(trace).to_dict("records")

    assert (found["cause"], trace.events.name_of(int(found["under"]))) == (cause, under)


def test_a_wait_under_no_op_has_no_op_to_name(tmp_path: Path) -> None:
    [found] = wait_causes(waiting_under(tmp_path, [])).to_dict("records")

    assert (found["cause"], found["under"]) == ("other", -1)
