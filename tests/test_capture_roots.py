"""The outermost modules of a program. Modules in here are stand-ins that dispatch their calls as torch's do."""

from __future__ import annotations

import copy
import pickle
from collections import deque
from collections.abc import Callable, Iterator, MutableSequence
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.child.marks import Marks
from profiler_doctor.analyzer.capture.plan import Plan
from profiler_doctor.analyzer.kinds import Root


class Module:
    _compiled_call_impl: Callable[..., Any] | None = None
    training = False

    def __init__(self, *children: Module, weights: int = 1) -> None:
        self._modules = {str(place): child for place, child in enumerate(children)}
        self.weights = weights
        self.calls = 0

    def parameters(self) -> Iterator[int]:
        yield from range(self.weights)
        for child in self._modules.values():
            yield from child.parameters()

    def __call__(self, *values: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*values)
        return self._call_impl(*values)

    def _call_impl(self, *values: Any) -> Any:
        self.calls += 1
        for child in self._modules.values():
            child(*values)
        return values

    def compile(self) -> None:
        self._compiled_call_impl = lambda *values: ("compiled", self._call_impl(*values))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compiled_call_impl"}


class Net(Module): ...


class Wrapper(Module):
    """As torch.compile makes them: another one each time, around the same module."""

    def __init__(self, inner: Module) -> None:
        super().__init__()
        self._modules = {"_orig_mod": inner}


class Asked:
    """A conductor that answers what it is told to, and remembers who it was asked about."""

    def __init__(self, answer: Callable[[Root], Callable[..., Any] | None] = lambda root: None) -> None:
        self.answer = answer
        self.about: MutableSequence[Any] = []
        self.boundaries = 0

    def on_boundary(self, index: int, now_ns: int) -> None:
        self.boundaries += 1

    def on_root_call(self, root: Root) -> Callable[..., Any] | None:
        self.about.append(root.module)
        return self.answer(root)


@pytest.fixture
def watch() -> Iterator[Callable[[Asked], Marks]]:
    made: list[Marks] = []

    def start(conductor: Asked) -> Marks:
        torch = SimpleNamespace(
            nn=SimpleNamespace(Module=Module), compiler=SimpleNamespace(is_compiling=lambda: False), Tensor=complex
        )
        made.append(Marks(torch, Plan(mode="observe", folder="/"), conductor))
        made[0].roots.install()
        return made[0]

    yield start
    made[0].roots.remove()
    assert Module._compiled_call_impl is None
    assert "_compiled_call_impl" not in vars(Net)
    assert Module.compile.__qualname__ == "Module.compile"


Watch = Callable[[Asked], Marks]


def test_only_outermost_modules_with_parameters_are_roots(watch: Watch) -> None:
    conductor = Asked()
    marks = watch(conductor)
    inner, loss = Module(), Module(weights=0)
    net = Net(inner)
    net(), loss(), net()
    assert conductor.about == [net, net]
    assert marks.names == {"module 0": "Net"}
    assert (net.calls, inner.calls, loss.calls) == (2, 2, 1)


def test_once_steps_are_known_only_the_roots_class_is_watched(watch: Watch) -> None:
    conductor = Asked()
    watch(conductor)
    net, inner = Net(Module()), Module()
    for _ in range(12):
        net()
    assert conductor.boundaries == 8
    assert Module._compiled_call_impl is None
    inner()
    assert set(conductor.about) == {net}


def test_a_stand_in_takes_a_roots_calls_and_its_inner_modules_stay_as_they_are(watch: Watch) -> None:
    conductor = Asked(lambda root: lambda *values: ("treated", root.call(*values), root.module(*values)))
    watch(conductor)
    inner = Module()
    net = Net(inner)
    assert net(1) == ("treated", (1,), (1,))
    assert net(2) == ("treated", (2,), (2,))
    assert conductor.about == [net]  # it has answered, and is not asked again
    assert (net.calls, inner.calls) == (4, 4)


def test_a_module_compiled_in_place_is_still_seen_and_still_compiled(watch: Watch) -> None:
    conductor = Asked()
    watch(conductor)
    net = Net()
    net()
    net.compile()
    assert net(7) == ("compiled", (7,))
    assert conductor.about == [net, net]


def test_wrappers_around_one_module_and_modules_made_anew_count_as_the_same(watch: Watch) -> None:
    conductor = Asked()
    conductor.about = deque(maxlen=0)  # or they would be kept alive
    marks = watch(conductor)
    inner = Net()
    for _ in range(2):
        Wrapper(inner)()
    assert marks.names == {"module 0": "Net"}
    for _ in range(2):
        Net(weights=3)()  # gone after each call
    assert marks.names == {"module 0": "Net", "module 1": "Net#2"}


def test_a_copy_of_a_watched_module_makes_its_own_calls(watch: Watch) -> None:
    watch(Asked())
    net = Net()
    net()
    net.compile()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        before = (net.calls, other.calls)
        other()
        assert (net.calls, other.calls) == (before[0], before[1] + 1)


def test_an_exception_of_the_scripts_passes_and_the_next_call_is_outermost_again(watch: Watch) -> None:
    conductor = Asked()
    watch(conductor)

    class Failing(Module):
        def _call_impl(self, *values: Any) -> Any:
            raise KeyError("the script's own")

    failing = Failing()
    for _ in range(2):
        with pytest.raises(KeyError, match="the script's own"):
            failing()
    assert conductor.about == [failing, failing]
