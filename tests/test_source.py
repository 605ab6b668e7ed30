"""Where in the user's program an op stands: its line, its module, its forward op, in this recording or the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler_doctor.analyzer.facts import Facts, TensorFacts
from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.frames import frames, own_frames
from profiler_doctor.analyzer.measures.modules import module_of, modules
from profiler_doctor.analyzer.measures.source import function_of, source_of, where_of
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder

BASE_NS = 1_700_000_000_000_000_000
"""Wall-clock time of the recording's zero."""


def with_frames() -> TraceBuilder:
    """A convolution in a module in a model in a script, as the profiler records its stack."""
    return (
        TraceBuilder()
        .step(1, 0, 1000)
        .frame("train.py(40): <module>", 0, 1000)
        .frame("train.py(12): train", 10, 900)
        .frame("nn.Module: Net_0", 20, 800)
        .frame("torch/nn/modules/module.py(1751): _call_impl", 21, 790)
        .frame("/home/me/site-packages/timm/layers.py(9): forward", 22, 780)
        .frame("/home/me/net.py(7): forward", 23, 770)
        .frame("nn.Module: Conv2d_3", 30, 100)
        .frame("torch/nn/modules/conv.py(548): forward", 31, 90)
        .op("aten::conv2d", 40, 70)
        .op("aten::relu", 200, 50)
        .op("aten::mse_loss", 850, 20)
        .op("aten::step", 950, 20)
    )


def row_of(trace: Trace, name: str) -> int:
    return trace.events.names_at(range(len(trace.events))).index(name)


PLACES = {
    "aten::conv2d": (("/home/me/net.py", 7), "Net_0/Conv2d_3"),
    "aten::relu": (("/home/me/net.py", 7), "Net_0"),
    "aten::mse_loss": (("train.py", 12), ""),
    "aten::step": (("train.py", 40), ""),
}


@pytest.mark.parametrize("second_recording", [False, True], ids=["own stacks", "stacks of the second recording"])
def test_an_op_stands_in_the_innermost_frame_of_the_users_own_code(second_recording: bool, tmp_path: Path) -> None:
    stacks = with_frames().trace(tmp_path)
    trace = stacks
    if second_recording:
        bare = TraceBuilder().step(5, 0, 500).op("aten::conv2d", 1, 2).op("aten::relu", 4, 2)
        bare = bare.op("aten::mse_loss", 7, 2).op("aten::step", 10, 2).trace(tmp_path)
        trace = replace(bare, stacks=stacks, cache={})
    rows = np.array([row_of(trace, name) for name in PLACES])
    assert source_of(trace, rows) == [place for place, _ in PLACES.values()]
    assert module_of(trace, rows) == [module for _, module in PLACES.values()]
    assert where_of(trace, int(rows[0])) == Where(
        file="/home/me/net.py", line=7, module="Net_0/Conv2d_3", op="aten::conv2d"
    )


@pytest.mark.parametrize(
    ("called", "line"),
    [(("/home/me/net.py", 9), 9), (("/home/me/other.py", 9), 7), (None, 7)],
    ids=["same file", "another file", "an operator"],
)
def test_our_own_recording_tells_the_line_that_calls(called: tuple[str, int] | None, line: int, tmp_path: Path) -> None:
    stacks = replace(with_frames().trace(tmp_path), base_ns=BASE_NS)
    bare = TraceBuilder().step(5, 0, 500).op("aten::conv2d", 1, 2).trace(tmp_path)
    told = TensorFacts(
        starts=(BASE_NS + 40,),
        given=((),),
        made=((),),
        storages=(),
        sizes=(),
        lines=(called,) if called else (),
        called_at=(0 if called else -1,),
    )
    trace = bare.with_capture(Facts(tensors=told), stacks)

    assert source_of(trace, np.array([row_of(trace, "aten::conv2d")])) == [("/home/me/net.py", line)]


@pytest.mark.parametrize(
    ("at", "line"), [(250, 14), (450, 17), (150, 14)], ids=["after one", "after two", "before any"]
)
def test_an_operator_in_a_function_that_stood_open_has_the_line_of_the_call_before_it(
    at: int, line: int, tmp_path: Path
) -> None:
    ours = "/home/me/profiler_doctor/analyzer/capture/child/recorder.py(50): start"
    built = TraceBuilder().step(1, 0, 1000).frame("train.py(26): train", 0, 1000).frame(ours, 5, 20)
    built.op("aten::linear", 200, 20).op("aten::relu", 400, 20).op("aten::mul", at, 20)
    stacks = replace(built.trace(tmp_path), base_ns=BASE_NS)
    told = TensorFacts(
        starts=(BASE_NS + 200, BASE_NS + 400),
        given=((), ()),
        made=((), ()),
        storages=(),
        sizes=(),
        lines=(("train.py", 14), ("train.py", 17)),
        called_at=(0, 1),
    )
    bare = TraceBuilder().step(5, 0, 500).op("aten::mul", 1, 2).trace(tmp_path)
    trace = bare.with_capture(Facts(tensors=told), stacks)

    rows = np.array([row_of(trace, "aten::mul")])
    assert source_of(trace, rows) == [("train.py", line)]
    assert function_of(trace, rows) == [("train.py", 26)]


def test_without_any_stacks_only_the_op_is_known(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 5).trace(tmp_path)
    assert source_of(trace, np.array([0])) == [None]
    assert where_of(trace, 0) == Where(op="aten::mm")
    assert where_of(trace, -1) == Where()
    assert modules(trace).empty


FRAMES = {
    "train.py(3): main": True,
    "./net.py(3): forward": True,
    "/home/me/net.py(3): forward": True,
    "C:\\me\\net.py(3): forward": True,
    "somebody/else.py(3): forward": True,
    ".(3): forward": False,
    "./(3): forward": False,
    "torch/nn/functional.py(3): relu": False,
    "threading.py(973): _bootstrap": False,
    "json/decoder.py(3): decode": False,
    "/usr/lib/python3.11/threading.py(973): run": False,
    "/opt/venv/lib/python3.11/site-packages/timm/x.py(3): f": False,
    "pytest/x.py(3): f": False,
    "profiler_doctor/analyzer/capture/child/session.py(3): f": False,
    "/home/me/src/profiler_doctor/analyzer/capture/child/roots.py(3): f": False,
    "<frozen os>(808): getenv": False,
    "<string>(2): __init__": False,
    "<built-in method mm of type object at 0x7f>": False,
    "nn.Module: Linear_0": False,
}


@pytest.mark.parametrize(("name", "own"), FRAMES.items())
def test_which_frames_are_the_users_own(name: str, own: bool, tmp_path: Path) -> None:
    trace = TraceBuilder().frame(name, 0, 5).trace(tmp_path)
    assert len(frames(trace).rows) == 1
    assert own_frames(trace).tolist() == [own]


def test_a_backward_op_has_the_place_of_its_forward_op(tmp_path: Path) -> None:
    builder = (
        TraceBuilder()
        .op("aten::select", 2, 3, **{"Sequence number": 7})  # makes no node: shows the number still to come
        .frame("net.py(7): forward", 10, 100)
        .frame("nn.Module: Linear_0", 11, 90)
        .op("aten::linear", 20, 50, **{"Sequence number": 7})
        .op("aten::addmm", 25, 30, **{"Sequence number": 7})
        .frame("train.py(3): train", 200, 100)
        .op("autograd::engine::evaluate_function: AddmmBackward0", 210, 50, **{"Sequence number": 7})
        .op("aten::mm", 220, 10)
        .op("aten::mm", 400, 10)
    )
    trace = builder.trace(tmp_path)
    forward = row_of(trace, "aten::linear")
    inner, outside = (row for row in trace.rows("cpu_op") if trace.events.name_of(int(row)) == "aten::mm")
    assert forward_of(trace, np.array([inner, outside])).tolist() == [forward, outside]
    assert source_of(trace, np.array([inner, outside])) == [("net.py", 7), None]
    assert module_of(trace, np.array([inner])) == ["Linear_0"]


def test_a_counterpart_has_the_same_name_and_turn_in_a_step_with_as_many(tmp_path: Path) -> None:
    one = TraceBuilder().step(1, 0, 100).op("a", 1, 2).op("b", 4, 2).op("a", 7, 2).trace(tmp_path)
    other = TraceBuilder().op("a", 1, 1).step(9, 10, 90).op("a", 11, 1).op("c", 13, 1).op("a", 15, 1).op("b", 17, 1)
    other_trace = other.op("b", 19, 1).trace(tmp_path)
    rows = one.rows("cpu_op")
    found = twins(one, other_trace, rows).tolist()
    assert [other_trace.events.start_ns[row] if row >= 0 else None for row in found] == [11, None, 15]


def test_a_counterpart_runs_on_the_same_side_of_the_program(tmp_path: Path) -> None:
    def recorded(first: int, second: int) -> Trace:
        builder = TraceBuilder(tid=first).step(1, 0, 100).op("a", 5, 2)
        return builder.event("cpu_op", "a", 1, 2, tid=second, args={}).trace(tmp_path)

    one, other = recorded(1, 2), recorded(8, 3)
    assert twins(one, other, one.rows("cpu_op")).tolist() == other.rows("cpu_op").tolist()


def turns(folder: Path, count: int, *, elsewhere: bool = False, stacks: bool = False) -> Trace:
    """A step with a loop of so many turns in a function at line 7 of net.py; one of them in another function."""
    built = TraceBuilder().step(0, 0, 1000)
    if stacks:
        built.frame("net.py(7): forward", 5, 900)
    if stacks and elsewhere:
        built.frame("net.py(70): other", 9, 20)
    for turn in range(count):
        built.op("aten::item", 10 + 40 * turn, 10)
    return built.trace(folder)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_loop_of_fewer_turns_in_the_second_recording_still_tells_its_only_function(
    tmp_path: Path, elsewhere: bool
) -> None:
    trace = replace(turns(tmp_path, 5), stacks=turns(tmp_path, 3, elsewhere=elsewhere, stacks=True), cache={})

    found = function_of(trace, trace.rows("cpu_op"))

    assert found == [None if elsewhere else ("net.py", 7)] * 5


def test_a_second_recording_without_frames_tells_nothing(tmp_path: Path) -> None:
    trace = replace(turns(tmp_path, 5), stacks=turns(tmp_path, 3), cache={})

    assert source_of(trace, trace.rows("cpu_op")) == [None] * 5


def test_a_real_recording_with_stacks_knows_every_ops_line_and_module(shared: Path) -> None:
    trace = read(shared / "traces" / "tracelens_h100_vit.json.gz")
    rows = trace.rows("cpu_op")
    places = source_of(trace, rows)
    assert all(place is not None for place in places)
    layer = row_of(trace, "aten::scaled_dot_product_attention")
    assert module_of(trace, np.array([layer]))[0].startswith("ViTModel_0/ViTEncoder_0/ViTLayer_0/")


def windows_of(folder: Path, *turns: tuple[str, ...]) -> Trace:
    """A recording without steps: ops of 5 ns, one every 10 ns."""
    built = TraceBuilder()
    for place, name in enumerate(name for turn in turns for name in turn):
        built.op(name, 10 * place, 5)
    return built.trace(folder)


def test_without_steps_a_counterpart_stands_among_the_same_ops(tmp_path: Path) -> None:
    turn = ("matmul", "mul", "fill", "softmax", "matmul")
    short, long = windows_of(tmp_path, *[turn] * 2), windows_of(tmp_path, ("rand",), *[turn] * 3)
    # the turns of `long` begin at rows 1, 6 and 11; the latest with the same three before and two after is meant
    assert twins(short, long, np.array([3, 4, 5, 7])).tolist() == [9, 10, 11, 13]


def test_without_steps_an_op_among_other_ones_has_no_counterpart(tmp_path: Path) -> None:
    one, other = windows_of(tmp_path, ("a", "b", "softmax", "c")), windows_of(tmp_path, ("a", "x", "softmax", "c"))
    assert twins(one, other, np.array([2])).tolist() == [-1]


def test_a_number_of_thousands_of_digits_is_no_line(tmp_path: Path) -> None:
    built = TraceBuilder().frame(f"model.py({'9' * 5_000}): forward", 0, 100).op("aten::mm", 10, 20)
    trace = built.trace(tmp_path)

    assert source_of(trace, trace.rows("cpu_op")) == [None]
