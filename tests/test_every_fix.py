"""What holds for every fix: documented, pastable, named after its file, and undone exactly when its context closes."""

from __future__ import annotations

import ast
import copy
import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Machine, Root, Rule, Unsuitable
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.fixes import _onnx, _tensorrt

FIXES = find("profiler_doctor.fixes", Fix)
HEADINGS = ("What it does:", "When it applies:", "How results may change:", "Source:")
MACHINE = Machine(
    device="cpu", torch="2", cpu_flags=frozenset({"avx512_bf16"}), cpus=2, threads=9, has_root=True, training=False,
    input_ranks=frozenset({4}),
)  # fmt: skip
MACHINES = [
    replace(MACHINE, device=device, training=training, compiled=compiled, cpu_flags=flags)
    for device in ("cpu", "cuda")
    for flags in (MACHINE.cpu_flags, frozenset())
    for training in (False, True)
    for compiled in (False, True)
]
GRAPH = replace(MACHINE, onnx_providers=frozenset({"CPUExecutionProvider", "DnnlExecutionProvider"}))
"""The target is an ONNX graph, which runs on more threads than there are CPUs."""
MACHINES.append(GRAPH)
OF_JAX = [fix.name for fix in FIXES.items if fix.of == "jax"]
OF_GRAPHS = [fix.name for fix in FIXES.items if fix.of == "onnx" and fix.set_up is None]
PARTICULAR = {
    **dict.fromkeys(OF_GRAPHS, "the subjects are no ONNX graphs: test_onnx_target.py"),
    **dict.fromkeys(OF_JAX, "the subjects are no functions of JAX: test_jax_target.py"),
    "eval-mode": "the subjects are in eval mode: test_fixes_modes.py",
    "static-cache": "the subjects generate nothing: test_fixes_gpu.py",
    "sdpa": "the subjects have no attention: test_fixes_modes.py",
    "recurrent-layer": "the subjects have no recurrent cell: test_fixes_recurrent.py",
    "compile-regional": "the subjects repeat no block: test_fixes_compiling.py",
    "torchscript-script": "a hook in Python cannot be translated: test_fixes_engines.py",
}
"""Fixes that suit none of the subjects here, and why."""
OTHER_ANSWERS = {"int8-dynamic": "8 bits are two digits"}
"""Fixes whose answers differ by design, and why: a trial rejects them and says by how much."""

every_fix = pytest.mark.parametrize("fix", FIXES.items, ids=lambda fix: fix.name)


def test_all_files_of_fixes_load_and_no_two_share_a_name() -> None:
    assert FIXES.broken == ()
    names = [fix.name for fix in FIXES.items]
    assert len(names) == len(set(names)) >= 8


@every_fix
def test_its_docs_have_the_fixed_headings(fix: Fix) -> None:
    assert all(f"\n{heading}" in fix.doc for heading in HEADINGS)
    assert fix.title.endswith(".")


@every_fix
def test_its_file_is_named_after_it(fix: Fix) -> None:
    module = importlib.import_module(f"profiler_doctor.fixes.{fix.name.replace('-', '_')}")
    assert module.FIX is fix
    assert fix.doc == module.__doc__


@every_fix
def test_its_snippet_is_python_to_paste(fix: Fix) -> None:
    assert fix.snippet.strip()
    ast.parse(fix.snippet)


@every_fix
def test_it_cures_codes_that_exist_and_none_if_it_is_hidden(fix: Fix) -> None:
    # one that cures no code is tried where it is asked for by name
    known = {rule.code for rule in find("profiler_doctor.rules", Rule).items}
    assert set(fix.cures) <= (set() if fix.hidden else known)


@every_fix
def test_another_setting_of_a_fix_names_one_that_exists_and_excludes_it(fix: Fix) -> None:
    if fix.variant_of:
        original = next(other for other in FIXES.items if other.name == fix.variant_of)
        assert not original.variant_of
        assert original.excludes == fix.excludes != ""


@every_fix
def test_it_does_something_and_says_where_it_does_not_apply(fix: Fix, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in (_onnx, _tensorrt):  # as if all were installed that a fix may need
        monkeypatch.setattr(package, "find_spec", lambda name: name)
    machine = next(machine for machine in MACHINES if fix.applies(machine) is None)
    assert fix.treat or fix.set_up or fix.environment(machine)
    no_module = replace(machine, has_root=False)
    assert fix.hidden or fix.treat is None or fix.applies(no_module) == "no module was called"


def test_importing_the_fixes_imports_the_standard_library_alone() -> None:
    for path in Path(importlib.import_module("profiler_doctor.fixes").__path__[0]).glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first = name.partition(".")[0]
                assert first in sys.stdlib_module_names or first == "profiler_doctor", (path.name, name)


@pytest.mark.parametrize(
    "fix",
    [
        pytest.param(fix, id=fix.name, marks=[pytest.mark.slow] if fix.rank >= COMPILER_RANK else [])
        for fix in FIXES.items
    ],
)
def test_it_undoes_itself_exactly(fix: Fix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    machine = next((machine for machine in MACHINES if fix.applies(machine) is None and machine.device == "cpu"), None)
    if machine is None:
        pytest.skip(str(fix.applies(MACHINE)))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()  # what other fixes compiled counts as recompiles of this one
    for name in fix.environment(machine):
        monkeypatch.delenv(name, raising=False)
    suited = [_round_trip(torch, fix, machine, *subject) for subject in _subjects(torch)]
    assert any(suited) is not (fix.name in PARTICULAR)


def _round_trip(torch: Any, fix: Fix, machine: Machine, model: Any, inputs: Any) -> bool:
    """Whether the fix suits the model; if so, that it keeps the answers and leaves nothing behind."""
    fired: list[int] = []
    model[-1].register_forward_hook(lambda *_: fired.append(1))
    expected, state, process = model(inputs), _state(model), _process(torch)
    twin = copy.deepcopy(model)
    try:
        if fix.set_up is not None:
            with fix.set_up(machine):
                treated = model(inputs)
        else:
            assert fix.treat is not None
            with fix.treat(Root(model, (inputs.clone(),), {}, model._call_impl)) as call:
                fired.clear()
                treated = call(inputs)
                assert fired == [1] or fix.excludes == ENGINE  # its docs say so, and a trial watches for it
    except Unsuitable:
        return False
    assert treated.dtype == expected.dtype
    allowed = max(fix.tolerance or 0, 1e-2 if expected.dtype == torch.half else 1e-5)
    assert (treated - expected).norm() <= allowed * expected.norm() or fix.name in OTHER_ANSWERS
    assert _state(model) == state
    assert _process(torch) == process
    for weight, other in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(weight, other)
        assert weight.stride() == other.stride()
    return True


def _subjects(torch: Any) -> list[tuple[Any, Any]]:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(288, 4)).eval()
    net[1].running_mean.uniform_(-1, 1)
    net[1].running_var.uniform_(0.5, 2)
    image = torch.rand(2, 3, 8, 8)
    return [(net, image), (copy.deepcopy(net).half(), image.half())]


def _state(model: Any) -> list[Any]:
    """Everything by which two moments of a module could be told apart, as plain values."""
    parts = [
        (name, type(part), part.training, sorted(vars(part)), "forward" in vars(part), dict(part._forward_hooks))
        for name, part in model.named_modules()
    ]
    tensors = [
        (name, tensor.data_ptr(), tensor.stride(), tensor.dtype, tensor.requires_grad)
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    ]
    return [parts, tensors, vars(model).get("_compiled_call_impl")]


def _process(torch: Any) -> list[Any]:
    return [
        torch.get_num_threads(), torch.set_num_threads, torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.is_autocast_enabled("cpu"),
        torch.nn.Module.__call__, torch.nn.Module._compiled_call_impl, torch.compile, torch.autocast.__init__,
        torch.set_anomaly_enabled, torch.Tensor.to, torch.utils.data.DataLoader.__init__,
        torch.backends.cudnn.benchmark,
        torch.nn.functional.scaled_dot_product_attention, torch.optim.Optimizer.__init__, torch.optim.AdamW.__init__,
        torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad, torch._inductor.config.freezing,
    ]  # fmt: skip
