"""The timeline as a figure: a row a stream, a few rows a thread, zoomed with the mouse or the keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator

from profiler_doctor.analyzer.timeline import Lane, Timeline
from profiler_doctor.reports import wording
from profiler_doctor.reports.charts import PARTS, Chart, figure, literal

ROW_PX = 16
THREAD = re.compile(r"thread (\S+) of process (\S+)")
"""What a lane is called; on a narrow screen so long a name leaves no room for the lane."""
TOGETHER = "rest"
"""The colour of what is drawn as one: grey."""
_BAR = {"type": "bar", "orientation": "h", "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}


def chart(timeline: Timeline) -> Chart:
    """The figure. It has no static shapes: without scripts the table of lanes is what there is."""
    place, bars, labels = 0, _Bars(), []
    for lane in timeline.lanes:
        labels.append((place, _short(lane.name)))
        bars.add(lane, place, timeline)
        place += max(lane.depths, default=0) + 1
    whole_ns = timeline.end_ns - timeline.start_ns
    axes = {
        "barmode": "overlay",
        "bargap": 0.1,
        "dragmode": "pan",
        "xaxis": {"title": {"text": "ms"}, "range": [0, whole_ns / 1e6], "gridcolor": "--line"},
        "yaxis": {
            "autorange": "reversed", "fixedrange": True, "showgrid": False, "automargin": True,
            "tickvals": [at for at, _ in labels], "ticktext": [literal(wording.name(name)) for _, name in labels],
        },
    }  # fmt: skip
    caption = f"{wording.plural(len(timeline.lanes), 'lane')} over {wording.duration(whole_ns)}"
    return Chart("timeline", caption, (), figure(list(bars.data()), axes, 60 + ROW_PX * place, margin=48))


def _short(lane: str) -> str:
    """The lane's name without its process; the table beside the figure has all of it."""
    found = THREAD.fullmatch(lane)
    return lane if found is None else "main thread" if found[1] == found[2] else f"thread {found[1]}"


class _Bars:
    """One set of bars a colour: a figure of few sets is drawn fast."""

    def __init__(self) -> None:
        self._by_tone: dict[str, dict[str, list[object]]] = {}

    def add(self, lane: Lane, place: int, timeline: Timeline) -> None:
        """All slices of a lane, its levels below each other."""
        for start, dur, name, depth in zip(lane.starts_ns, lane.durs_ns, lane.names, lane.depths, strict=True):
            tone = TOGETHER if name < 0 else f"p{name % PARTS}"
            told = "several short ones" if name < 0 else wording.plain(timeline.names[name], 100)
            of_tone = self._by_tone.setdefault(tone, {"base": [], "x": [], "y": [], "text": []})
            of_tone["base"].append(start / 1e6)
            of_tone["x"].append(dur / 1e6)
            of_tone["y"].append(place + depth)
            of_tone["text"].append(literal(f"{told}: {wording.duration(dur)}"))

    def data(self) -> Iterator[dict[str, object]]:
        """plotly's sets of bars."""
        for tone, columns in self._by_tone.items():
            yield {**_BAR, **columns, "width": 0.8, "marker": {"color": f"--{tone}"}}
