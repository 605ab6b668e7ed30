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
WHY = {
    ("11", "channels-last"): "the stake counts the copies that go away; the convolutions run faster in that order, too",
    ("08", "compile"): "the stake is one pass over memory; the compiled kernel takes six times as long as a copy does "
    "(14.8 ms against 2.5 ms, and 41.7 ms eagerly, one thread)",
    ("24", "is-causal"): "the mask is taken to be a fifth of the call; it measured 8 to 32 % by length and type",
}
"""Number of a case and fix → why its prediction is off, as far as it was looked into."""

UNVERIFIED = {
    "05": "a step is half a dozen compilations and takes over a second: three sets of pairs do not fit into the budget",
    "16": "this CPU multiplies in half precision, so that full precision brings little; ONNX Runtime was verified once",
    "18": "the compiled loop is slower than the loop (nn.LSTM is what helps, and is the user's to write)",
    "23": "the compiled attention is no faster on one thread (one call of torch's own is, and is the user's to write)",
}
"""Number of a case that has a cure of ours which is not verified in every run → why, as far as it was looked into."""

Measured = Mapping[Case, Sequence[Document]]


@dataclass(frozen=True)
class Predicted:
    """One verified gain beside the stake of the finding it cures; both as shares of the step."""

    case: str
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
    near = sum(abs(pair.miss) <= WITHIN for pair in pairs)
    lines = ["# Accuracy", "", *_introduction(measured), "## Verdicts", "", *_verdicts(measured), ""]
    lines += [
        *_unverified(measured),
        "## Predicted and verified",
        "",
        "![Predicted stake against verified gain](accuracy.svg)",
        "",
    ]
    lines += ["Case | Fix | Predicted stake | Verified | Off by", "---|---|--:|--:|--:"]
    lines += [f"{one.case} | {one.fix} | {one.stake:.1%} | {one.saved:.1%} | {one.miss:+.0%}" for one in pairs]
    if pairs:
        lines += ["", f"Within ±{WITHIN:.0%}: {near} of {len(pairs)} ({near / len(pairs):.0%}; wanted {WANTED:.0%})."]
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
    every: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for case, runs in measured.items():
        for document in runs:
            for fix, stake, saved in _of_one(document):
                every.setdefault((case.name, fix), []).append((stake, saved))
    return [
        Predicted(name, fix, median(stake for stake, _ in values), median(saved for _, saved in values))
        for (name, fix), values in every.items()
    ]


def _of_one(document: Document) -> Iterator[tuple[str, float, float]]:
    for trial in document.get("trials", []):
        stakes = [f["stake"]["share"] for _, f in findings(document) if trial["fix"] in f["cures"]]
        known = [stake for stake in stakes if stake is not None]
        if trial["verdict"] == "verified" and known and trial["speedup"] > 1:
            yield trial["fix"], max(known), 1 - 1 / trial["speedup"]


def _unverified(measured: Measured) -> Iterator[str]:
    """Why cases are without a verified cure."""
    for case, runs in measured.items():
        if case.number in UNVERIFIED and any(case.outcome(document) == "no fix verified" for document in runs):
            yield f"- {case.name}: {UNVERIFIED[case.number]}."
    yield ""


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
