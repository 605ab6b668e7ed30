"""Fixes that change how the user's own model is called: what they do while they last."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes import _compiling  # noqa: E402
from profiler_doctor.fixes.channels_last import FIX as CHANNELS_LAST  # noqa: E402
from profiler_doctor.fixes.compile import FIX as COMPILE  # noqa: E402
from profiler_doctor.fixes.inference_mode import FIX as INFERENCE_MODE  # noqa: E402
from profiler_doctor.fixes.one_thread import FIX as ONE_THREAD  # noqa: E402
from profiler_doctor.fixes.thread_count import FIX as THREAD_COUNT  # noqa: E402


def _machine(**more: Any) -> Machine:
    known = {"device": "cpu", "torch": "2", "cpu_flags": frozenset(), "cpus": 2, "threads": 8, "has_root": True}
    return Machine(**{**known, "training": False, **more})


def _root(module: Any, *args: Any, **kwargs: Any) -> Root:
    return Root(module, args, kwargs, module._call_impl)


def test_outputs_under_inference_mode_need_no_gradient() -> None:
    model = torch.nn.Linear(2, 2)
    with INFERENCE_MODE.treat(_root(model)) as call:
        assert call(torch.ones(1, 2)).is_inference()
        assert not torch.is_inference_mode_enabled()
    assert model(torch.ones(1, 2)).requires_grad


def test_training_needs_autograd() -> None:
    assert INFERENCE_MODE.applies(_machine(training=True)) == "the script trains, and training needs autograd"


def test_weights_and_every_image_among_the_inputs_are_channels_last() -> None:
    seen: dict[str, tuple[int, ...]] = {}

    class Model(torch.nn.Conv2d):
        def forward(self, x: Any, more: Any) -> Any:
            seen.update(x=x.stride(), more=more["mask"].stride(), ids=more["ids"].stride(), weight=self.weight.stride())
            return super().forward(x)

    model = Model(3, 4, 3)
    image, ids = torch.rand(1, 3, 8, 8), torch.zeros(1, 3, 8, 8, dtype=torch.long)
    with CHANNELS_LAST.treat(_root(model)) as call:
        output = call(image, more={"mask": image, "ids": ids})
    last = (192, 1, 24, 3)
    assert seen == {"x": last, "more": last, "ids": (192, 64, 8, 1), "weight": (27, 1, 9, 3)}
    assert output.is_contiguous(memory_format=torch.channels_last)
    assert image.is_contiguous()


def test_what_was_learnt_in_channels_last_is_kept_when_it_ends() -> None:
    model = torch.nn.Conv2d(3, 4, 3)
    place = model.weight.data_ptr()
    with CHANNELS_LAST.treat(_root(model)), torch.no_grad():
        model.weight.fill_(0.5)
    assert model.weight.data_ptr() == place
    assert model.weight.is_contiguous()
    assert bool((model.weight == 0.5).all())


def test_a_model_without_4d_weights_or_inputs_is_none_for_channels_last() -> None:
    with pytest.raises(Unsuitable, match="no 4-D weights"), CHANNELS_LAST.treat(_root(torch.nn.Linear(2, 2))):
        pass
    assert CHANNELS_LAST.applies(_machine(input_ranks=frozenset({2, 3}))) == "the model takes no 4-D input"


@pytest.mark.parametrize(("fix", "ceiling"), [(THREAD_COUNT, 2), (ONE_THREAD, 1)])
def test_the_scripts_own_thread_counts_are_capped_and_given_back(fix: Any, ceiling: int) -> None:
    # in a process of its own: a process that has run parallel work keeps its threads
    script = f"""
import torch
from profiler_doctor.analyzer.kinds import Machine
from profiler_doctor.fixes.{fix.name.replace("-", "_")} import FIX
machine = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=8, has_root=True, training=False)
torch.set_num_threads(4)
own = torch.set_num_threads
with FIX.set_up(machine):
    print(torch.get_num_threads())
    torch.set_num_threads(7)
    print(torch.get_num_threads())
print(torch.get_num_threads(), torch.set_num_threads is own)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[:3] == [str(ceiling), str(ceiling), "7 True"]


def test_a_thread_count_that_the_user_set_lower_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert THREAD_COUNT.environment(_machine(cpus=4)) == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "4"}


def test_threads_that_have_their_cpus_need_no_cap() -> None:
    assert THREAD_COUNT.applies(_machine(threads=2)) == "2 threads are no more than the 2 CPUs granted"
    assert THREAD_COUNT.applies(_machine(threads=3)) is None
    assert ONE_THREAD.applies(_machine(threads=1)) == "each op runs on one thread already"


def test_compiling_needs_a_compiler_and_a_model_that_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiling.shutil, "which", lambda name: None)
    assert "no C++ compiler" in str(COMPILE.applies(_machine()))
    assert COMPILE.applies(_machine(device="cuda")) is None
    assert COMPILE.applies(_machine(compiled=True)) == "the script compiles its model already"


def test_compile_is_given_the_module_itself_or_what_another_fix_made_of_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda thing: given.append(thing) or thing)
    model = torch.nn.Linear(2, 2)
    wrapped = lambda x: model(x)  # noqa: E731, PLW0108  # a call that another fix has put in place
    for call in (model._call_impl, model, wrapped):
        with COMPILE.treat(Root(model, (), {}, call)):
            pass
    assert given == [model, model, wrapped]
