"""A watched script runs as it would without us."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.watched import WATCH, run, write

SELF = """
    import inspect, os, pickle, signal, sys, threading
    import torch

    class Pickled:
        pass

    def about():
        print(sys.argv, sys.path, sys.flags, sys.orig_argv[1:])
        print(__name__, __file__, type(__loader__).__name__, __spec__ and __spec__.name, os.getcwd())
        print(pickle.loads(pickle.dumps(Pickled())).__class__, inspect.getsource(Pickled))
        print({name: value for name, value in os.environ.items() if "PYTHON" in name or "DOCTOR" in name})
        print("sitecustomize" in sys.modules, threading.active_count(), type(torch.__spec__.loader).__name__)
        print(signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), sys.stdin.read())

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 30:
                raise RuntimeError("thirty")
            return self.layer(x)

    about()
    net = Net()
    for _ in range(25):
        net(torch.ones(1, 2))
    how = sys.argv[1]
    if how == "return":
        print(net(torch.ones(1, 2)).shape)
    elif how == "exit":
        sys.exit(3)
    elif how == "message":
        sys.exit("a message")
    elif how == "os._exit":
        sys.stdout.flush()
        os._exit(7)
    elif how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        try:
            for _ in range(9):
                net(torch.ones(1, 2))
        except RuntimeError as error:
            raise ValueError("raised from it") from error
"""
"""Says all it can about itself, makes steps enough to be recorded, and ends in the way it is told."""


@pytest.mark.parametrize(
    ("how", "status"), [("return", 0), ("exit", 3), ("message", 1), ("os._exit", 7), ("signal", -9), ("raise", 1)]
)
def test_a_script_says_and_ends_as_in_plain_python(tmp_path: Path, how: str, status: int) -> None:
    script = write(tmp_path, SELF)
    plain = run([script, how, "-x"], tmp_path, input="typed")
    watched = run(["-c", WATCH, script, how, "-x"], tmp_path, input="typed")
    assert plain.returncode == status
    assert f"SCRIPT EXIT {status}\n" in watched.stderr
    assert watched.stdout == plain.stdout
    assert watched.stderr.replace(f"SCRIPT EXIT {status}\n", "") == plain.stderr


def test_a_module_run_with_m_says_the_same(tmp_path: Path) -> None:
    write(tmp_path, SELF, "itself.py")
    plain = run(["-m", "itself", "return"], tmp_path, input="")
    watched = run(["-c", WATCH, "-m", "itself", "return"], tmp_path, input="")
    assert plain.returncode == 0
    assert watched.stdout == plain.stdout


BESIDE = """
    import resource, statistics, sysconfig
    import torch

    net = torch.nn.Linear(2, 2)
    for _ in range(25):
        net(torch.ones(1, 2))
    print(resource.WHOSE, statistics.WHOSE, sysconfig.WHOSE)
"""


def test_modules_of_the_project_named_as_ones_that_we_need_are_no_hindrance(tmp_path: Path) -> None:
    for name in ("resource.py", "statistics.py", "sysconfig.py"):
        write(tmp_path, "WHOSE = 'mine'", name)
    watched = run(["-c", WATCH, write(tmp_path, BESIDE)], tmp_path)
    counts = "from profiler_doctor.analyzer.capture.child.turns import _interruptions as n; print(n() >= 0)"
    counted = run(["-c", counts], tmp_path)
    assert watched.stdout == "mine mine mine\n"
    assert watched.stderr == "SCRIPT EXIT 0\n"
    assert counted.stdout == "True\n"


WORKERS = """
    import os, sys, multiprocessing
    import torch
    from torch.nn import Module

    torch.set_num_threads(1)  # the OpenMP threads of a forked process are gone, with or without us

    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 240

        def __getitem__(self, index):
            assert torch.nn.Module._compiled_call_impl is None
            from profiler_doctor.analyzer.capture.child import session
            assert session.marks is None
            return torch.ones(2)


    def in_spawned(queue):
        queue.put(("profiler_doctor.analyzer.capture.child.session" in sys.modules, Module._compiled_call_impl))

    if __name__ == "__main__":
        net = torch.nn.Linear(2, 2)
        for batch in torch.utils.data.DataLoader(Items(), batch_size=8, num_workers=2):
            net(batch)
        spawn = multiprocessing.get_context("spawn")
        queue = spawn.Queue()
        process = spawn.Process(target=in_spawned, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
        pid = os.fork()
        if pid == 0:
            net(torch.ones(1, 2))
            sys.exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_workers_and_other_children_run_unwatched(tmp_path: Path) -> None:
    done = run(["-c", WATCH, write(tmp_path, WORKERS)], tmp_path)
    assert done.stdout == "(False, None)\n5\n"
    assert "SCRIPT EXIT 0" in done.stderr
    folders = [path for path in (tmp_path / ".profiler-doctor").iterdir() if path.is_dir() and not path.is_symlink()]
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [
        ["environment.json", "facts.json", "trace.json.gz"]
    ]


COMPILED = """
    import copy, io
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x).relu()

    def print_nothing(*call):
        return None

    x = torch.ones(1, 2)
    net, hooked, late = Net().eval(), Net().eval(), Net().eval()
    hooked.register_forward_hook(print_nothing)
    wrapped = torch.compile(Net().eval(), backend="eager", fullgraph=True)
    in_place = Net().eval()
    in_place.compile(backend="eager", fullgraph=True)
    for _ in range(25):
        for module in (net, hooked, late, wrapped, in_place):
            module(x)
    net.compile(backend="eager", fullgraph=True)
    for function in (net, lambda x: hooked(x)):
        torch.compile(function, backend="eager", fullgraph=True)(x)
    torch.save(hooked, io.BytesIO())
    other = copy.deepcopy(hooked)
    torch.nn.init.zeros_(other.layer.weight)
    print("copied", torch.equal(other(x), other.layer.bias.relu()[None]))
    print("scripted", torch.jit.script(late)(x).shape, torch.jit.trace(late, x)(x).shape)
    print("exported", torch.export.export(late, (x,)).module()(x).shape)
    import torch._dynamo.utils as utils
    print(dict(utils.counters["stats"]), dict(utils.counters["graph_break"]), torch.nn.Module._compiled_call_impl)
"""


def test_compiling_copying_and_scripting_a_watched_module_gives_what_it_gives_unwatched(tmp_path: Path) -> None:
    script = write(tmp_path, COMPILED)
    plain = run([script], tmp_path)
    watched = run(["-c", WATCH, script], tmp_path)
    assert "unique_graphs" in plain.stdout
    assert watched.stdout == plain.stdout
    assert re.search("SCRIPT EXIT 0", watched.stderr)
