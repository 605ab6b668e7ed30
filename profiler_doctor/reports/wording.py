"""How numbers, names and doubts are put into words, the same in every report."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping

from profiler_doctor.analyzer.model import ONLY_A_TRIAL, Stake, Trial
from profiler_doctor.analyzer.totals import StepTime

NAME_LIMIT = 300
"""Characters of a name that a report shows; C++ kernel names run to thousands and tell no more."""
_DURATIONS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
_AMOUNTS = ((1, "B"), (1_000, "kB"), (1_000_000, "MB"), (1_000_000_000, "GB"), (1_000_000_000_000, "TB"))
_THREE_DIGITS = 999.5
"""From here on three digits would round up to 1000: time for the next unit."""
_HIDDEN = re.compile(r"[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""Characters without a width or that turn the line around: a name must not rearrange the report it stands in. The
joiners of emoji stay."""
_UNITS = ("_ns", "_bytes_per_s", "_per_s", "_bytes", "_s")
_CLOCKS = {"wall": "wall clock", "cpu": "CPU time", "gpu": "GPU time"}


def plain(text: object, limit: int = NAME_LIMIT) -> str:
    """Text that can stand in a line: no control characters or line breaks, and where it is long, without its middle."""
    whole = text if isinstance(text, str) else str(text)
    if len(whole) > 4 * limit:  # the middle is going to be lost anyway; spare the work on it
        whole = f"{whole[: 2 * limit]}…{whole[-2 * limit :]}"
    return shortened(whole if whole.isprintable() else _tamed(whole), limit)


def _tamed(text: str) -> str:
    whole = text.encode("utf-8", "replace").decode("utf-8")
    spaced = "".join(" " if char in "\t\n\r\v\f\u2028\u2029" else char for char in whole)
    visible = "".join("\ufffd" if unicodedata.category(char) in ("Cc", "Cs") else char for char in spaced)
    return _HIDDEN.sub("", visible)


def name(text: object) -> str:
    """A name of ours or of a plug-in's, short enough for a heading."""
    return plain(text, 80)


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and end with an ellipsis between them: names differ at both ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def duration(ns: float) -> str:
    """Nanoseconds in the unit that suits them, three digits: `12.3 ms`; from 100 s on in minutes."""
    if abs(ns) >= 100e9:
        minutes, seconds = divmod(round(abs(ns) / 1e9), 60)
        return f"{'-' if ns < 0 else ''}{minutes:,} min {seconds} s"
    return _scaled(ns, _DURATIONS)


def amount(size: float) -> str:
    """Bytes in the unit that suits them: `12.3 MB`."""
    return _scaled(size, _AMOUNTS)


def _scaled(value: float, units: tuple[tuple[int, str], ...]) -> str:
    for factor, unit in units:
        if abs(value) / factor < _THREE_DIGITS or (factor, unit) == units[-1]:
            return f"{_digits(value / factor, whole=factor == 1)} {unit}"
    raise AssertionError("the last unit takes everything")


def _digits(value: float, *, whole: bool = False) -> str:
    """Three significant digits between 1 and 1000, no decimals beyond; `whole` for what comes in pieces."""
    size = abs(value)
    decimals = 0 if whole or size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{value:,.{decimals}f}"


def share(part: float) -> str:
    """A share as percent: `12 %`, below ten with one decimal, and never `0 %` for something that is there."""
    percent = 100 * part
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.0f} %" if abs(percent) >= 9.95 or percent == 0 else f"{percent:.1f} %"


def count(number: int) -> str:
    """A number of things: `1,234`."""
    return f"{number:,}"


def code(text: str, limit: int) -> str:
    """Code of several lines, each cleaned; what is beyond `limit` characters is left out and that is said."""
    lines = "\n".join(plain(line, limit) for line in text.strip("\n").splitlines())
    return lines if len(lines) <= limit else f"{lines[:limit]}\n# cut here; diagnosis.json has all of it"


def code_line(text: str) -> str:
    """One line of a program: indented as it was, each tab as four blanks."""
    return plain(text.expandtabs(4), 200)


def clock(name: str) -> str:
    """What a trial was timed by: `CPU time`."""
    return _CLOCKS.get(name, name)


def plural(number: int, thing: str, things: str = "") -> str:
    """`1 step`, `5 steps`; `things` where an s is not enough."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def times(ratio: float) -> str:
    """A speed-up: `1.31×`; below 1 it is a slow-down."""
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.1f}×"


def interval(low: float | None, high: float | None) -> str:
    """The doubt that travels with a speed-up: `1.27–1.35`; empty where it was not measured."""
    return "" if low is None or high is None else f"{low:.2f}–{high:.2f}"


def estimate(stake: Stake, whole: str = "step") -> str:
    """A stake as what it is: an upper bound by estimate, never a measurement. `whole` is what the share is of."""
    if stake.share is not None:
        return f"up to {share(stake.share)} of the {whole} (estimate)"
    if stake.ns_per_step:
        return f"up to {duration(stake.ns_per_step)} per step (estimate)"
    return ONLY_A_TRIAL


def saving(speedup: float, whole: str = "step") -> str:
    """A verified speed-up as the share of the `whole` that it takes away."""
    return f"verified: {share(1 - 1 / speedup)} of the {whole}"


def speed(trial: Trial) -> str:
    """What a trial measured: `1.31× as fast (99 % interval 1.27–1.35, CPU time)`; empty where nothing was measured."""
    if trial.speedup is None:
        return ""
    doubt = interval(trial.low, trial.high)
    notes = [f"99 % interval {doubt}"] if doubt else []
    notes += [_CLOCKS[trial.clock]] if trial.clock else []
    return f"{times(trial.speedup)} as fast" + (f" ({', '.join(notes)})" if notes else "")


def outputs(trial: Trial) -> str:
    """Whether the cure kept the results, with the relative error that was measured."""
    if trial.outputs_equal is None:
        return ""
    if trial.outputs_equal:
        return f"outputs equal within {trial.error:.1g}" if trial.error else "outputs equal to the last bit"
    allowed = f" ({trial.tolerance:.1g} is allowed)" if trial.tolerance else ""
    return f"outputs differ by {trial.error:.1g}{allowed}" if trial.error else "outputs differ"


def price(trial: Trial) -> str:
    """What the cure costs once, and when that is earned back."""
    if not trial.cold_s or trial.cold_s < 0.05:
        return ""
    earned = f", earned back after {plural(trial.break_even_calls, 'call')}" if trial.break_even_calls else ""
    return f"costs {duration(trial.cold_s * 1e9)} once{earned}"


def tails(trial: Trial) -> str:
    """How single steps spread on both sides: `212 / 240 / 260 ms before, …`, each p50 / p95 / p99."""
    before, after = trial.before_spread, trial.after_spread
    if before is None or after is None:
        return ""
    told = [" / ".join(duration(ns) for ns in (side.p50, side.p95, side.p99)) for side in (before, after)]
    return f"{told[0]} before, {told[1]} after (p50 / p95 / p99 of single steps)"


def memory(trial: Trial) -> str:
    """The most memory that each side held; empty where that was not measured."""
    if trial.before_peak_bytes is None or trial.after_peak_bytes is None:
        return ""
    return f"{amount(trial.before_peak_bytes)} before, {amount(trial.after_peak_bytes)} after"


def noise(trial: Trial) -> str:
    """What doing nothing showed on the machine that measured the trial."""
    return "" if trial.noise is None else f"doing nothing showed up to {share(trial.noise)} on this machine"


def steps(step_ns: StepTime) -> str:
    """The time of a step with its quartiles: `212 ms (middle half 208 ms – 219 ms)`."""
    if step_ns.median is None:
        return "not measured"
    if step_ns.low is None or step_ns.high is None or step_ns.low == step_ns.high:
        return duration(step_ns.median)
    return f"{duration(step_ns.median)} (middle half {duration(step_ns.low)} – {duration(step_ns.high)})"


def label(key: str) -> str:
    """A key of the evidence or the environment as words: `median_gap_ns` → `median gap`."""
    for suffix in _UNITS:
        if key.endswith(suffix):
            key = key.removesuffix(suffix)
            break
    return plain(key.replace("_", " ").strip() or key, 80)


def value(key: str, raw: object) -> str:
    """A value in words, by the unit in its key's name: `_ns`, `_bytes`, `_s`, `share`."""
    if raw is None:
        return "not known"
    if isinstance(raw, bool):
        return "yes" if raw else "no"
    if isinstance(raw, int | float):
        return _number(key, raw)
    if isinstance(raw, Mapping):
        unit = next((suffix for suffix in _UNITS if key.endswith(suffix)), "_ns" if key == "idle_by_cause" else "")
        return plain(", ".join(f"{label(str(inner))} {value(f'{inner}{unit}', item)}" for inner, item in raw.items()))
    if isinstance(raw, list | tuple) and all(isinstance(item, str | int | float) for item in raw):
        return plain(", ".join(value(key, item) for item in raw))
    return plain(raw if isinstance(raw, str) else json.dumps(raw, default=str, ensure_ascii=False))


def _number(key: str, number: float) -> str:
    if key.endswith("_ns"):
        return duration(number)
    if key == "bytes" or key.endswith("_bytes"):
        return amount(number)
    if key.endswith("_per_s"):
        return f"{amount(number)}/s" if key.endswith("bytes_per_s") else f"{number:.4g}/s"
    if key.endswith("_s"):
        return duration(number * 1e9)
    if key == "share" or key.endswith("_share"):
        return share(number)
    return f"{number:,}" if isinstance(number, int) else f"{number:.4g}"
