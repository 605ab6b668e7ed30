"""What our capture learns of torch.compile while the script runs: breaks, recompilations, seconds, caches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.child.compiling import Compiling, is_own
from profiler_doctor.analyzer.compile_facts import CompileFacts, GraphBreak

BREAK = """\
Graph break in user code at /home/me/net.py:19
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: …
  Hint: This graph break is fundamental - it is unlikely that …
  Hint: Set capture_scalar_outputs.

 For more details about this graph break, please visit: https://somewhere/gb/gb0124.html

User code traceback:
  File "/home/me/net.py", line 30, in <module>
    c(x)
  File "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in _call_impl
"""
IN_A_LIBRARY = """\
Graph break in user code at /v/site-packages/lib/model.py:7
Reason: Unsupported: call to print

User code traceback:
  File "/home/me/net.py", line 30, in forward
    self.lib(x)
  File "/v/site-packages/lib/model.py", line 7, in forward
"""


IN_A_LOOP = """\
Graph break in user code at /home/me/net.py:11
Graph Break Reason: Failed to handle graph break gracefully. Skipping the function and falling back to eager. Graph \
break encountered:

Failed to trace builtin operator
  Hint: Avoid calling builtin `print`.

User code traceback:
  File "/home/me/net.py", line 30, in <module>
    c(x)
  File "/home/me/net.py", line 11, in forward
    print(x)

Traceback (most recent call last):
  File "/v/site-packages/torch/_dynamo/symbolic_convert.py", line 1, in wrapper
"""


class Torch:
    """Stands for torch: as much of it as reports pass through."""

    def __init__(self) -> None:
        self.passed_on: list[str] = []
        self._logging = SimpleNamespace(trace_structured=lambda name, *_, **__: self.passed_on.append(name))

    def artifact(self, kind: str, payload: Any) -> None:
        self._logging.trace_structured("artifact", lambda: {"name": kind}, payload_fn=lambda: payload)

    def metrics(self, **values: Any) -> None:
        self._logging.trace_structured("compilation_metrics", lambda: values)


def listening(alive: bool = True) -> tuple[Torch, Compiling]:
    torch = Torch()
    compiling = Compiling(torch, lambda: alive)
    compiling.install()
    return torch, compiling


def test_a_break_is_kept_with_its_place_reason_hint_and_code() -> None:
    torch, compiling = listening()

    torch.artifact("dynamo_graph_break_reason", BREAK)
    torch.artifact("dynamo_graph_break_reason", BREAK)

    assert compiling.facts().breaks == (
        GraphBreak(
            file="/home/me/net.py",
            line=19,
            reason="Unsupported Tensor.item() call with capture_scalar_outputs=False",
            hint="Set capture_scalar_outputs.",
            code="GB0124",
            count=2,
        ),
    )


def test_a_break_in_a_library_is_placed_at_the_users_line_that_led_there() -> None:
    torch, compiling = listening()

    torch.artifact("dynamo_graph_break_reason", IN_A_LIBRARY)

    [found] = compiling.facts().breaks
    assert (found.file, found.line, found.reason) == ("/home/me/net.py", 30, "Unsupported: call to print")


def test_recompilations_of_one_line_are_one_with_the_newest_guard_of_each() -> None:
    torch, compiling = listening()

    for reasons in ("0/0: size 3, not 4", ["0/1: size 4, not 5", "0/0: size 3, not 5"]):
        torch.artifact("recompile_reasons", reasons)

    [found] = compiling.facts().recompiles
    assert found.guards == ("size 3, not 4", "size 4, not 5")
    assert (found.count, found.limit_hit) == (2, False)
    assert found.file == __file__


def test_the_attempt_that_meets_the_limit_is_no_recompilation_but_says_that_the_limit_was_met() -> None:
    torch, compiling = listening()

    for attempt in range(2):
        torch.artifact("recompile_reasons", f"0/{attempt}: another size")
    torch.metrics(fail_reason="Dynamo recompile limit exceeded\n  Explanation: …", duration_us=5)

    [found] = compiling.facts().recompiles
    assert (found.count, found.limit_hit) == (1, True)
    assert compiling.facts().compilations == 0


def test_seconds_add_up_over_compilations_and_the_backward_ones_are_within_them() -> None:
    torch, compiling = listening()

    for seconds in ({"duration_us": 1_500_000, "is_forward": True}, {"entire_frame_compile_time_s": 0.25}):
        torch.metrics(co_name="forward", **seconds)
    torch.metrics(duration_us=400_000, is_forward=False)

    assert (compiling.facts().compilations, compiling.facts().compile_s) == (2, 1.75)
    assert [(place.file, place.function) for place in compiling.facts().compiled_at] == [(__file__, "forward")]


def test_reports_that_look_different_are_passed_on_and_forgotten() -> None:
    torch, compiling = listening()

    torch._logging.trace_structured("artifact", lambda: 1 / 0, payload_fn=lambda: "x")
    torch.artifact("recompile_reasons", None)
    torch._logging.trace_structured("something_new")

    assert torch.passed_on == ["artifact", "artifact", "something_new"]
    assert compiling.facts() == CompileFacts()


def test_nothing_is_noted_once_we_stopped_watching() -> None:
    torch, compiling = listening(alive=False)

    torch.artifact("dynamo_graph_break_reason", BREAK)

    assert compiling.facts() == CompileFacts()
    assert torch.passed_on == ["artifact"]


def test_an_old_torch_has_nothing_to_listen_to() -> None:
    undo = Compiling(SimpleNamespace(_logging=SimpleNamespace()), lambda: True).install()

    undo()


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/me/torch/model.py", True),
        ("C:\\me\\model.py", True),
        ("/v/lib/python3.11/site-packages/timm/vit.py", False),
        ("/usr/lib/python3.11/contextlib.py", False),
        ("/src/profiler_doctor/analyzer/capture/child/roots.py", False),
        ("<frozen runpy>", False),
    ],
)
def test_the_users_own_files_are_told_from_the_others(file: str, own: bool) -> None:
    assert is_own(file) is own


def test_todays_torch_reports_breaks_and_recompilations_as_we_expect() -> None:
    torch = pytest.importorskip("torch")
    compiling = Compiling(torch, lambda: True)
    undo = compiling.install()

    def scaled(x: Any) -> Any:
        y = x / x.max().item()
        return y + 1

    try:
        function = torch.compile(scaled, backend="eager", dynamic=False)
        for size in (3, 4):
            function(torch.ones(size))
    finally:
        undo()
        torch._dynamo.reset()

    facts = compiling.facts()
    assert [(found.file, "item" in found.reason) for found in facts.breaks] == [(__file__, True)]
    assert any("size mismatch" in guard for found in facts.recompiles for guard in found.guards)
    assert facts.compilations >= 4
    assert facts.compile_s > 0


def test_a_function_that_torch_gave_up_is_named_with_the_reason_proper() -> None:
    torch, compiling = listening()

    torch.artifact("dynamo_graph_break_reason", IN_A_LOOP)

    [seen] = compiling.facts().breaks
    assert (seen.uncompiled, seen.line) == ("forward", 11)
    assert seen.reason == "Failed to trace builtin operator"
