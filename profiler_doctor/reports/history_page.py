"""The history of checks as one page: step times and counters of each workload, run after run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from profiler_doctor.analyzer.history import Result, noise
from profiler_doctor.reports import page_frame, scripts, wording
from profiler_doctor.reports.charts import Chart, figure, literal

SHOWN = ("ops", "launches", "item_calls", "copied_bytes", "allocated_bytes", "peak_bytes", "live_bytes", "flops")
"""Counters that have a line of their own, where they were ever anything but 0."""
OUTCOMES = {
    0: ("--verified", "passed"),
    1: ("--rejected", "worse"),
    2: ("--rest", "failed"),
    3: ("--inconclusive", "not decided"),
}
"""Exit code → the colour of its points, and the word for it."""
ROWS = 40
"""Of the table of a workload."""
HEIGHT = 260
"""Of a chart, in pixels."""


def page(results: Sequence[Result]) -> bytes:
    """A page that needs no other file, in UTF-8: the charts' library is inside, packed."""
    names = list(dict.fromkeys(result.workload for result in results))
    plotly = scripts.plotly()
    shown = [
        _workload(number, name, [each for each in results if each.workload == name])
        for number, name in enumerate(names)
    ]
    templates = page_frame.templates()
    templates.filters["in_script"] = lambda value: Markup(scripts.json_for_script(value))  # noqa: S704  # escaped for it
    made = templates.get_template("history.html").render(
        workloads=shown,
        count=len(results),
        plotly=plotly,
        **page_frame.frame(*([plotly.fingerprint] if plotly else [])),
    )
    return made.encode("utf-8", "replace")


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


def _workload(number: int, name: str, results: Sequence[Result]) -> dict[str, object]:
    counters = [counter for counter in SHOWN if any(each.counters.get(counter) for each in results)]
    charts = [_times(f"times-{number}", results)] if any(each.step_ns for each in results) else []
    charts += [_counter(f"{counter}-{number}", counter, results) for counter in counters]
    return {
        "name": name,
        "noise": _noise_line(name, results),
        "charts": charts,
        "rows": [_row(each) for each in reversed(results[-ROWS:])],
        "left_out": max(0, len(results) - ROWS),
    }


def _times(key: str, results: Sequence[Result]) -> Chart:
    """Step times, coloured by what the check said; times of other machines are other points, never one line."""
    timed = [each for each in results if each.step_ns]
    lines = []
    for machine in dict.fromkeys(_machine(each.circumstances) for each in timed):
        here = [each for each in timed if _machine(each.circumstances) == machine]
        lines.append(_line(here, _milliseconds(here), "lines") | {"line": {"color": "--soft", "width": 1}})
    for code, (tone, words) in OUTCOMES.items():
        here = [each for each in timed if each.exit_code == code]
        marker = {"color": tone, "size": 9}
        lines.append(_line(here, _milliseconds(here), "markers") | {"marker": marker, "name": words})
    return _chart(key, "Time of a step in milliseconds", lines)


def _counter(key: str, name: str, results: Sequence[Result]) -> Chart:
    line = _line(results, [each.counters.get(name) for each in results], "lines+markers")
    return _chart(key, name.replace("_", " "), [line | {"line": {"color": "--accent", "width": 1}}])


def _chart(key: str, caption: str, lines: Sequence[object]) -> Chart:
    axes = {"yaxis": {"rangemode": "tozero", "gridcolor": "--line"}, "xaxis": {"type": "date", "gridcolor": "--line"}}
    return Chart(key, caption, (), figure(lines, axes, HEIGHT, margin=64))


def _line(results: Sequence[Result], values: Sequence[object], mode: str) -> dict[str, Any]:
    told = [literal(wording.plain(f"{each.revision[:12]} · {_machine(each.circumstances)}", 120)) for each in results]
    points = {"x": [each.at for each in results], "y": list(values), "text": told}
    return {"type": "scatter", "mode": mode, "hovertemplate": "%{x}<br>%{y}<br>%{text}<extra></extra>", **points}


def _row(result: Result) -> tuple[str, ...]:
    said = OUTCOMES.get(result.exit_code, ("", f"exit {result.exit_code}"))[1]
    took = wording.duration(result.step_ns) if result.step_ns else "–"
    ratio = f"{result.ratio:.3f} times" if result.ratio else "–"
    return (
        wording.plain(result.at[:16].replace("T", " "), 40),
        wording.plain(result.revision[:12], 12),
        said,
        took,
        ratio,
    )


def _milliseconds(results: Sequence[Result]) -> list[float]:
    return [(each.step_ns or 0) / 1e6 for each in results]


def _noise_line(name: str, results: Sequence[Result]) -> str:
    found = noise(results)
    if found is None:
        return f"{wording.plain(name, 80)}: too few passing checks with times to tell the noise."
    return f"{wording.plain(name, 80)}: the ratios of passing checks scatter by {wording.share(found)}."


def _ratio(result: Result) -> str:
    return f"{result.ratio:.3f} times the base's" if result.ratio else ""


def _machine(circumstances: Mapping[str, object]) -> str:
    return f"{circumstances.get('cpu', 'unknown machine')}, torch {circumstances.get('torch', '?')}"
