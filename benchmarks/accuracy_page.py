"""The page about accuracy: which verdicts were right, and how far predictions were from what trials verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.cases import Case, Document, bf16_units, findings

WITHIN = 0.25
WANTED = 0.60
"""So many of the verified gains should be within `WITHIN` of what was predicted."""
SIDE = 420
"""Pixels of the plot."""
WORST = 5
NEW_MEMORY = (
    "the program ends after 20 steps, and those that are recorded get new memory from the system again and again "
    "({recorded} a step); a trial's are warm ({warm})"
)
WHOLE_LAYER = "the stake is that of the whole layer, which recurrent-layer brings; this only makes each turn cheaper"
WHY = {
    ("11", "channels-last"): "the stake counts the copies that go away; the convolutions run faster in that order, too",
    ("08", "compile"): NEW_MEMORY.format(recorded="44 to 72 ms", warm="19 ms"),
    ("10", "torchscript-script"): "the stake is that of the batch norms alone",
    ("18", "compile"): WHOLE_LAYER,
    ("18", "torchscript"): WHOLE_LAYER,
    ("23", "sdpa"): NEW_MEMORY.format(recorded="20 ms", warm="8 ms"),
}
"""Number of a case and fix → why its prediction is off, as far as it was looked into."""

Measured = Mapping[Case, Sequence[Document]]


@dataclass(frozen=True)
class Predicted:
    """One verified gain beside the stake of the finding it cures; both as shares of the step."""

    case: str
    code: str
    """Of the finding; the one with the largest stake where the fix cures several."""
    fix: str
    stake: float
    saved: float

    @property
    def miss(self) -> float:
        """0.25: predicted a quarter too much; -0.25: a quarter too little."""
        return self.stake / self.saved - 1


def page(measured: Measured) -> str:
    """The whole page."""
    pairs = predictions(measured)
    lines = ["# Accuracy", "", *_introduction(measured), "## Verdicts", "", *_verdicts(measured), ""]
    lines += [
        "## Predicted and verified",
        "",
        "![Predicted stake against verified gain](accuracy.svg)",
        "",
    ]
    lines += ["Case | Fix | Predicted stake | Verified | Off by", "---|---|--:|--:|--:"]
    lines += [f"{one.case} | {one.fix} | {one.stake:.1%} | {one.saved:.1%} | {one.miss:+.0%}" for one in pairs]
    if pairs:
        lines += [
            "",
            "A stake is what a finding's cure can bring at most, so it is held against the cure that brought most: "
            f"within ±{WITHIN:.0%} for {_near(_best(pairs))}; wanted {WANTED:.0%}. Of all rows: {_near(pairs)}.",
        ]
    return "\n".join([*lines, "", *_unpredicted(measured)]) + "\n"


def _introduction(measured: Measured) -> Iterator[str]:
    environments = [document["environment"] for runs in measured.values() for document in runs if "trials" in document]
    yield (
        "Written by `benchmarks/accuracy.py`, which runs every labelled case as `profiler-doctor run CASE -- --variant "
        "slow`. Gains are times as fast with their 99 % interval; the stake is the share of the step that the finding "
        "was expected to be worth, before any trial."
    )
    if environments:
        yield f"\nMeasured with {_told(environments[-1])}."
    yield ""


def _told(environment: Document) -> str:
    cpu = environment.get("cpu") or {}
    units = bf16_units(environment)
    bf16 = "with bf16 units" if units else "without bf16 units"
    return (
        f"{cpu.get('usable', '?')} CPUs ({cpu.get('model', 'unknown')}, {bf16}), torch {environment.get('torch')}, "
        f"Python {environment.get('python')}"
    )


def _verdicts(measured: Measured) -> Iterator[str]:
    yield "Case | Expected | Runs as expected | Found | Stake | Fix | Verdict | Gain (99 % interval)"
    yield "---|---|---|---|--:|---|---|---"
    for case, runs in measured.items():
        outcomes = [case.outcome(document) for document in runs]
        right = f"{outcomes.count('as expected')} of {len(runs)}" if runs else "not run"
        others = dict.fromkeys(outcome for outcome in outcomes if outcome != "as expected")
        first = [case.name, case.expected, "; ".join([right, *others])]
        for row in _rows(runs[-1]) if runs else ["| | | |"]:
            yield " | ".join([*first, row])
            first = ["", "", ""]


def _rows(document: Document) -> Iterator[str]:
    """What was found, and each fix that was tried for it, from the last run."""
    told: set[str] = set()
    for code, finding in findings(document):
        trials = [trial for trial in document["trials"] if trial["fix"] in finding["cures"]]
        stake = finding["stake"]["share"]
        share = "only a trial tells" if stake is None else f"{stake:.1%}"
        for trial in trials or [None]:
            yield " | ".join([code, share, *(_tried(trial) if trial else ("no fix of ours", "", ""))])
        told |= {trial["fix"] for trial in trials}
    for trial in document.get("trials", []):
        if trial["fix"] not in told and trial["verdict"] != "not_tried":
            yield " | ".join(["", "", *_tried(trial)])
    if not list(findings(document)) and not document.get("trials"):
        yield "nothing | | | | "


def _tried(trial: Mapping[str, Any]) -> tuple[str, str, str]:
    gain = f"{trial['speedup']:.2f} ({trial['low']:.2f}–{trial['high']:.2f})" if trial["speedup"] else ""
    return trial["fix"], trial["verdict"].replace("_", " "), gain


def predictions(measured: Measured) -> list[Predicted]:
    """Verified gains beside their predicted stakes, medians over a case's runs."""
    every: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for case, runs in measured.items():
        for document in runs:
            for code, fix, stake, saved in _of_one(document):
                every.setdefault((case.name, code, fix), []).append((stake, saved))
    return [
        Predicted(*key, median(stake for stake, _ in values), median(saved for _, saved in values))
        for key, values in every.items()
    ]


def _of_one(document: Document) -> Iterator[tuple[str, str, float, float]]:
    """A fix that cures a finding of unknown stake as well is left out: a part of its gain was not predicted."""
    for trial in document.get("trials", []):
        stakes = [(f["stake"]["share"], code) for code, f in findings(document) if trial["fix"] in f["cures"]]
        told = bool(stakes) and all(stake is not None for stake, _ in stakes)
        if trial["verdict"] == "verified" and told and trial["speedup"] > 1:
            stake, code = max(stakes)
            yield code, trial["fix"], stake, 1 - 1 / trial["speedup"]


def _best(pairs: Sequence[Predicted]) -> list[Predicted]:
    """Of each finding the cure that brought most."""
    best: dict[tuple[str, str], Predicted] = {}
    for one in sorted(pairs, key=lambda pair: pair.saved):
        best[one.case, one.code] = one
    return list(best.values())


def _near(pairs: Sequence[Predicted]) -> str:
    near = sum(abs(pair.miss) <= WITHIN for pair in pairs)
    return f"{near} of {len(pairs)} ({near / len(pairs):.0%})"


def _unpredicted(measured: Measured) -> Iterator[str]:
    """Verified gains that no stake was given for, and the predictions that were furthest off."""
    worst = sorted(predictions(measured), key=lambda one: -abs(one.miss))[:WORST]
    far = [one for one in worst if abs(one.miss) > WITHIN]
    if far:
        yield "The furthest off:"
        yield ""
        for one in far:
            why = WHY.get((one.case[:2], one.fix), "not looked into")
            yield f"- {one.case}, {one.fix} ({one.miss:+.0%}): {why}."
        yield ""
    predicted = {(one.case, one.fix) for one in predictions(measured)}
    without = [
        f"{case.name}, {trial['fix']}"
        for case, runs in measured.items()
        for trial in (runs[-1].get("trials", []) if runs else [])
        if trial["verdict"] == "verified" and (case.name, trial["fix"]) not in predicted
    ]
    if without:
        yield f"Verified without a prediction, because only a trial can tell what they bring: {'; '.join(without)}."


def plot(measured: Measured) -> str:
    """Predicted stake (across) against verified gain (up), both as shares of the step, with the band of ±25 %."""

    def at(share: float) -> float:
        return round(max(0.0, min(share, 1.0)) * SIDE, 1)

    band = f"0,{SIDE} {SIDE},{at(1 - 1 / (1 + WITHIN))} {SIDE},0 {at(1 - WITHIN)},0"
    dots = "".join(
        f'<circle cx="{at(one.stake)}" cy="{SIDE - at(one.saved)}" r="4"><title>{one.case}: {one.fix}</title></circle>'
        for one in predictions(measured)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-40 -10 {SIDE + 60} {SIDE + 50}" width="{SIDE + 60}">'
        f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#888"/><polygon points="{band}" fill="#8ab" '
        f'fill-opacity="0.3"/><line x1="0" y1="{SIDE}" x2="{SIDE}" y2="0" stroke="#888"/><g fill="#b33">{dots}</g>'
        f'<g font-family="sans-serif" font-size="12" fill="#444"><text x="{SIDE / 2 - 60}" y="{SIDE + 25}">predicted '
        f'share of the step</text><text transform="translate(-15 {SIDE / 2 + 60}) rotate(-90)">verified share</text>'
        "</g></svg>\n"
    )
