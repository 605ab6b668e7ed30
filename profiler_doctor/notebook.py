"""In a notebook: diagnose a function, a block or a trace, and get an object that shows itself.

The one place where we work inside the user's own process: what is to be diagnosed lives there. Nothing is tried, since
no fresh process could repeat the call; the findings say what to try, and `profiler-doctor run` tries it on a script.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.capture import processors
from profiler_doctor.analyzer.capture.child.kineto import load_ahead, quiet
from profiler_doctor.analyzer.capture.environment import environment, with_facts
from profiler_doctor.analyzer.diagnosis import Subject
from profiler_doctor.analyzer.facts import Facts, RootFacts
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.reports import markdown
from profiler_doctor.reports.writing import write_all
from profiler_doctor.verbs.choice import every_rule, selection
from profiler_doctor.verbs.table import every_table, with_names
from profiler_doctor.verbs.untried import examined

if TYPE_CHECKING:
    import pandas as pd

WARM_UP_CALLS = 3
TIMED_CALLS = 30
TIMED_S = 5.0
"""Un-profiled calls end after so many seconds, once there are three."""
NOT_TRIED = "no fresh process could repeat what lives in a notebook; `profiler-doctor run` tries it on a script"


@dataclass(frozen=True, eq=False)
class Diagnosed:
    """A finished diagnosis. A notebook shows it as a page; `document` holds all of it as plain values."""

    document: Diagnosis
    trace: Trace

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return self.document.verdict.sentence

    @property
    def tables(self) -> tuple[str, ...]:
        """The names that `table` takes."""
        return tuple(every_table())

    def table(self, name: str) -> pd.DataFrame:
        """One table of the trace, all rows; times in integer nanoseconds. Raises KeyError for an unknown name."""
        found = every_table()[name]
        return with_names(self.trace, found.of(self.trace))

    def save(self, folder: str | Path) -> Path:
        """Write the reports (page, Markdown, JSON, annotated trace) into `folder`, and return it."""
        file = Path(self.trace.source)
        reports = find("profiler_doctor.reports", Report).items
        write_all(self.document, Path(folder), file if file.is_file() else None, reports)
        return Path(folder)

    def to_json(self) -> str:
        """The document as `diagnosis.json` holds it."""
        return document.encode(self.document).decode()

    def _repr_html_(self) -> str:
        from markdown_it import MarkdownIt

        shown = MarkdownIt("commonmark", {"html": False}).enable("table")
        return f"<div class='profiler-doctor'>{shown.render(markdown.render(self.document, None).decode())}</div>"

    def __repr__(self) -> str:
        return f"Diagnosed({self.document.subject!r}: {self.sentence})"


def analyze(path: str | Path) -> Diagnosed:
    """Read one trace that was captured elsewhere. Raises UnreadableTrace with a sentence where it is none."""
    return _examined(read(Path(path)), Path(path).name, {})


def diagnose(function: Callable[..., object], *arguments: object, steps: int = 5, **named: object) -> Diagnosed:
    """Call `function(*arguments, **named)` a few dozen times in this process: warm up, time, record, and examine.

    One call is one step. `function` may be an nn.Module, which also tells how it is being called. It is called at
    least `steps` + 6 times, and what it does besides (updating weights, drawing random numbers) happens each time.
    """
    torch = importlib.import_module("torch")
    load_ahead(torch)
    call = _Call(torch, function, arguments, named)
    cold_ns = call.timed()
    for _ in range(WARM_UP_CALLS - 1):
        call.timed()
    times = tuple(_until(call.timed, TIMED_CALLS, TIMED_S))
    with tempfile.TemporaryDirectory(prefix="profiler-doctor-") as folder:
        trace, profiled = _recorded(torch, call.timed, steps, (Path(folder) / "trace.json", False))
        stacks, _ = _recorded(torch, call.timed, min(steps, 2), (Path(folder) / "stacks.json", True))
    facts = replace(
        _facts(torch, call.device), roots=call.roots(), cold_step_ns=cold_ns, step_ns=times, profiled_step_ns=profiled
    )
    name = getattr(function, "__name__", type(function).__name__)
    return _examined(trace.with_capture(facts, stacks), name, with_facts(environment((name,)), facts))


@contextmanager
def profile(name: str = "block") -> Iterator[Profiled]:
    """Record a block of this process once. It has no steps and no un-profiled time, so shares are of the window."""
    torch = importlib.import_module("torch")
    load_ahead(torch)
    found = Profiled(name)
    with tempfile.TemporaryDirectory(prefix="profiler-doctor-") as folder:
        file = Path(folder) / "trace.json"
        with quiet(), torch.profiler.profile(record_shapes=True, with_stack=True, with_modules=True) as recording:
            yield found
        recording.export_chrome_trace(str(file))
        trace = read(file)
    facts = _facts(torch, "cuda" if torch.cuda.is_available() else "cpu")
    found.ended(_examined(trace.with_capture(facts, None), name, with_facts(environment((name,)), facts)))


class Profiled:
    """What `profile` gives: its `diagnosis` is there as soon as the block has ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._diagnosis: Diagnosed | None = None

    def ended(self, diagnosis: Diagnosed) -> None:
        """The block is over, and this was found."""
        self._diagnosis = diagnosis

    @property
    def diagnosis(self) -> Diagnosed:
        """Raises RuntimeError within the block."""
        if self._diagnosis is None:
            raise RuntimeError(f"{self.name} is still being recorded: ask after the `with` block.")
        return self._diagnosis

    def _repr_html_(self) -> str:
        return self.diagnosis._repr_html_()


class _Call:
    """One function with its arguments, called and timed again and again."""

    def __init__(self, torch: Any, function: Callable[..., object], arguments: Sequence[object], named: Any) -> None:
        self._torch, self._function, self._arguments, self._named = torch, function, arguments, named
        self._calls, self._needs_grad = 0, False
        tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
        self._ranks = tuple(sorted({value.dim() for value in tensors if value.is_floating_point()}))
        self.device = next((value.device.type for value in tensors if value.device.type != "cpu"), "cpu")

    def timed(self) -> int:
        """Wall time of one call in ns, until the device has done all of it."""
        self._wait()
        begin = time.perf_counter_ns()
        result = self._function(*self._arguments, **self._named)
        self._wait()
        took = time.perf_counter_ns() - begin
        self._calls += 1
        self._needs_grad = self._needs_grad or bool(getattr(result, "requires_grad", False))
        return took

    def roots(self) -> tuple[RootFacts, ...]:
        """How the module is called, where the function is one."""
        module = self._function
        if not isinstance(module, self._torch.nn.Module):
            return ()
        parameters = list(module.parameters())
        root = RootFacts(
            name=type(module).__name__,
            calls=self._calls,
            training=module.training,
            grad_enabled=self._torch.is_grad_enabled(),
            output_requires_grad=self._needs_grad,
            autocast=None,
            parameter_bytes=sum(each.numel() * each.element_size() for each in parameters),
            parameter_dtypes=tuple(sorted({str(each.dtype) for each in parameters})),
            input_ranks=self._ranks,
            signatures=(),
            compiled=any(hasattr(each, "_orig_mod") for each in module.modules()),
        )
        return (root,)

    def _wait(self) -> None:
        if self.device == "cuda":
            self._torch.cuda.synchronize()


def _until(timed: Callable[[], int], most: int, seconds: float) -> Iterator[int]:
    end = time.monotonic() + seconds
    for done in range(most):
        if done >= 3 and time.monotonic() > end:
            return
        yield timed()


def _recorded(
    torch: Any, timed: Callable[[], int], steps: int, into: tuple[Path, bool]
) -> tuple[Trace, tuple[int, ...]]:
    """The trace of so many marked steps, with Python stacks where asked, and how long each took."""
    file, stacks = into
    took = []
    with quiet(), torch.profiler.profile(record_shapes=True, with_stack=stacks, with_modules=stacks) as recording:
        with torch.profiler.record_function("warm-up"):  # the first recorded call pays for the profiler's start
            timed()
        for number in range(steps):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                took.append(timed())
    recording.export_chrome_trace(str(file))
    return read(file), tuple(took)


def _facts(torch: Any, device: str) -> Facts:
    return Facts(
        device=device,
        step_source="calls in a notebook",
        cpus=processors.usable_cpus(),
        threads=torch.get_num_threads(),
        cpu_flags=processors.cpu_flags(),
        debug_modes=("autograd anomaly mode",) if torch.is_anomaly_enabled() else (),
        warmup_steps=WARM_UP_CALLS,
        torch=torch.__version__,
    )


def _examined(trace: Trace, name: str, surroundings: dict[str, object]) -> Diagnosed:
    rules = every_rule()
    subject = Subject(name=name, command=(), environment=surroundings)
    return Diagnosed(examined(subject, trace, rules, selection(rules.items, (), ()), NOT_TRIED), trace)
