"""The history of checks as one page: step times and counters of each workload, run after run."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from profiler_doctor.analyzer.history import Result, noise
from profiler_doctor.reports import wording

SHOWN = ("ops", "launches", "item_calls", "copied_bytes", "allocated_bytes", "peak_bytes", "live_bytes", "flops")
"""Counters that have a line of their own, where they were ever anything but 0."""
COLOURS = {0: "#2e7d32", 1: "#c62828", 3: "#f9a825"}


def page(results: Sequence[Result]) -> bytes:
    """A page that needs no other file: the charts' library is inside."""
    import plotly.offline

    workloads = list(dict.fromkeys(result.workload for result in results))
    parts = [_section(name, [each for each in results if each.workload == name]) for name in workloads]
    body = "".join(parts) or "<p>There are no results yet.</p>"
    library = f"<script>{plotly.offline.get_plotlyjs()}</script>"
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Performance history</title>'
    style = "<style>body{font-family:sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}</style>"
    return f"{head}{style}{library}</head><body><h1>Performance history</h1>{body}</body></html>\n".encode()


def text(results: Sequence[Result]) -> str:
    """A line for each result, and the noise of each workload."""
    lines = [
        f"{each.at}  {wording.plain(each.revision[:12], 12):12}  {wording.plain(each.workload, 30):30}  "
        f"exit {each.exit_code}  {wording.duration(each.step_ns) if each.step_ns else '–':>9}  {_ratio(each)}".rstrip()
        for each in results
    ]
    names = dict.fromkeys(each.workload for each in results)
    lines += [_noise_line(name, [each for each in results if each.workload == name]) for name in names]
    return "\n".join(lines) + "\n"


def _section(name: str, results: Sequence[Result]) -> str:
    figures = [_times(results), *(_counter(counter, results) for counter in _counters(results))]
    charts = "".join(_drawn(figure) for figure in figures if figure is not None)
    return f"<h2>{_safe(name)}</h2><p>{_safe(_noise_line(name, results))}</p>{charts}"


def _times(results: Sequence[Result]) -> Any:
    """Step times, coloured by what the check said; times of other machines are other points, never one line."""
    timed = [each for each in results if each.step_ns]
    if not timed:
        return None
    traces = []
    for machine in dict.fromkeys(_machine(each.circumstances) for each in timed):
        here = [each for each in timed if _machine(each.circumstances) == machine]
        values = [(each.step_ns or 0) / 1e6 for each in here]
        marks = {"color": [COLOURS.get(each.exit_code, "#616161") for each in here], "size": 9}
        traces.append(_line(here, values, _safe(machine)) | {"marker": marks})
    return {"data": traces, "layout": _layout("time of a step (ms)")}


def _counter(name: str, results: Sequence[Result]) -> Any:
    values = [each.counters.get(name) for each in results]
    return {"data": [_line(results, values, name)], "layout": _layout(name.replace("_", " "))}


def _counters(results: Sequence[Result]) -> list[str]:
    return [name for name in SHOWN if any(each.counters.get(name) for each in results)]


def _line(results: Sequence[Result], values: Sequence[object], name: str) -> dict[str, Any]:
    labels = [f"{_safe(each.revision[:12])} · {_safe(each.at)}" for each in results]
    points = {"x": [each.at for each in results], "y": list(values), "text": labels, "name": name}
    return {"type": "scatter", "mode": "lines+markers", **points}


def _layout(title: str) -> dict[str, Any]:
    return {"title": {"text": title}, "height": 300, "margin": {"t": 40, "b": 40}, "yaxis": {"rangemode": "tozero"}}


def _drawn(figure: Mapping[str, Any]) -> str:
    import plotly.io

    drawn: str = plotly.io.to_html(dict(figure), include_plotlyjs=False, full_html=False, validate=False)
    return drawn


def _noise_line(name: str, results: Sequence[Result]) -> str:
    found = noise(results)
    if found is None:
        return f"{wording.plain(name, 80)}: too few passing checks with times to tell the noise."
    return f"{wording.plain(name, 80)}: the ratios of passing checks scatter by {wording.share(found)}."


def _ratio(result: Result) -> str:
    return f"{result.ratio:.3f} times the base's" if result.ratio else ""


def _machine(circumstances: Mapping[str, object]) -> str:
    return f"{circumstances.get('cpu', 'unknown machine')}, torch {circumstances.get('torch', '?')}"


def _safe(text_: str) -> str:
    return html.escape(wording.plain(text_, 120))
