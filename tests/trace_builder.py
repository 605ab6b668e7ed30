"""Small traces made by hand, in the form kineto writes them, for tests that need one number they can check on paper."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace


@dataclass
class TraceBuilder:
    """Times are integer nanoseconds. `op` and `call` are host slices; `launch` adds a launch and its GPU work."""

    tid: int = 1
    events: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    top: dict[str, Any] = field(default_factory=dict)
    _next: int = 1

    def event(self, cat: str, name: str, start_ns: int, dur_ns: int, **more: Any) -> TraceBuilder:
        """One complete event; `more` may hold pid, tid and args."""
        base = {"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": self.tid}
        times = {"ts": f"@{start_ns / 1000:.3f}@", "dur": f"@{dur_ns / 1000:.3f}@"}
        self.events.append({**base, **times, **more})
        return self

    def step(self, number: int, start_ns: int, dur_ns: int) -> TraceBuilder:
        return self.event("user_annotation", f"ProfilerStep#{number}", start_ns, dur_ns, args={})

    def op(self, name: str, start_ns: int, dur_ns: int, **args: Any) -> TraceBuilder:
        """A CPU op; args in kineto's names, e.g. **{"Input Dims": [[2, 3]], "Input type": ["float"]}."""
        self._next += 1
        return self.event("cpu_op", name, start_ns, dur_ns, args={"External id": self._next, **args})

    def annotation(self, name: str, start_ns: int, dur_ns: int) -> TraceBuilder:
        return self.event("user_annotation", name, start_ns, dur_ns, args={})

    def frame(self, name: str, start_ns: int, dur_ns: int) -> TraceBuilder:
        """A Python frame, e.g. "model.py(12): forward"."""
        return self.event("python_function", name, start_ns, dur_ns, args={})

    def call(self, name: str, start_ns: int, dur_ns: int, correlation: int = 0) -> TraceBuilder:
        """A runtime call on the host, e.g. cudaDeviceSynchronize."""
        args = {"correlation": correlation} if correlation else {}
        return self.event("cuda_runtime", name, start_ns, dur_ns, args=args)

    def gpu(self, name: str, start_ns: int, dur_ns: int, correlation: int, **args: Any) -> TraceBuilder:
        """GPU work without its launch; category from the name (Memcpy…, Memset…, else kernel). args: device, stream."""
        start = {"Memc": "gpu_memcpy", "Mems": "gpu_memset"}.get(name[:4], "kernel")
        where = {"device": 0, "stream": 7, "correlation": correlation, **args}
        return self.event(start, name, start_ns, dur_ns, pid=where["device"], tid=where["stream"], args=where)

    def launch(self, name: str, at: tuple[int, int], on_gpu: tuple[int, int], **args: Any) -> TraceBuilder:
        """A launch call `at` (start, dur) and its work `on_gpu` (start, dur), linked by a fresh correlation."""
        self._next += 1
        api = args.pop("api", {"Memc": "cudaMemcpyAsync", "Mems": "cudaMemsetAsync"}.get(name[:4], "cudaLaunchKernel"))
        self.call(api, at[0], at[1], self._next)
        return self.gpu(name, on_gpu[0], on_gpu[1], self._next, **args)

    def json(self) -> str:
        """The file's text: numbers with three decimals, as kineto writes them."""
        document = {"schemaVersion": 1, "deviceProperties": self.devices, **self.top, "traceEvents": self.events}
        return json.dumps(document).replace('"@', "").replace('@"', "")

    def write(self, folder: Path, name: str = "trace.json") -> Path:
        path = folder / name
        path.write_text(self.json(), encoding="utf-8")
        return path

    def trace(self, folder: Path) -> Trace:
        """Written and read again by the program's own reader."""
        return read(self.write(folder))
