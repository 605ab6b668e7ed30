"""What every report tells, in the order it tells it: each section's content in words, free of any layout."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from profiler_doctor.analyzer.model import Capture, Diagnosis
from profiler_doctor.analyzer.totals import Totals
from profiler_doctor.reports import wording
from profiler_doctor.reports.ranking import Card, open_cards, trials_that, whole

BUSY = "device busy"
_PARTS = {
    "device_or_dependency": "idle: between queued work",
    "launch_latency": "idle: launch latency",
    "blocking_call": "idle: host waits in a blocking call",
    "alloc_call": "idle: memory is allocated",
    "dataloader": "idle: waiting for the data loader",
    "op_dispatch": "idle: host dispatches ops",
    "python": "idle: Python between ops",
}
"""What the exclusive parts of a device's idle time are called in words."""
_OF_VERIFY = ("--fix", "--fix-file")
"""Options with a value that `verify` has and `run` has not."""


@dataclass(frozen=True)
class Fact:
    """One line of a table with two columns."""

    label: str
    text: str


@dataclass(frozen=True)
class Part:
    """One piece of a whole that is cut up without rest."""

    label: str
    ns: int
    share: float


@dataclass(frozen=True)
class Breakdown:
    """Where a stretch of time goes: parts that do not overlap and add up to it, largest first."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Sign:
    """One number that is seen before anything is read; `tone` is `verified`, `estimated` or nothing."""

    label: str
    figure: str
    note: str
    tone: str = ""


@dataclass(frozen=True)
class Next:
    """The command to type next, and why."""

    why: str
    command: str


def title(diagnosis: Diagnosis) -> str:
    """The subject as a name: a path is shortened to its last part."""
    return wording.plain(PurePath(diagnosis.subject).name or diagnosis.subject or "unnamed", 120)


def about(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """What was examined: for a trace that somebody else recorded, all that is known of it."""
    return tuple(_about_run(diagnosis) if diagnosis.capture else _about_trace(diagnosis))


def _about_trace(diagnosis: Diagnosis) -> Iterator[Fact]:
    for key, label in (
        ("producer", "Recorded by"),
        ("format", "Format"),
        ("devices", "Hardware"),
        ("device", "Hardware"),
    ):
        if diagnosis.environment.get(key):
            yield Fact(label, wording.value(key, diagnosis.environment[key]))
    totals = diagnosis.totals
    marked = wording.plural(len(totals.steps), "marked step") if totals.steps else "no marked steps"
    yield Fact("Holds", f"{wording.plural(totals.events, 'event')}, {marked}")
    yield from _devices(totals)


def _about_run(diagnosis: Diagnosis) -> Iterator[Fact]:
    capture = diagnosis.capture
    if capture is None:
        return
    roots = ", ".join(f"{name} ({wording.plural(calls, 'call')})" for name, calls in capture.roots.items())
    if roots:
        yield Fact("Model", wording.plain(roots))
    yield Fact("Steps", _steps_of(capture))
    if capture.script_exit:
        yield Fact("Script", f"ended with exit status {capture.script_exit}")
    yield from _devices(diagnosis.totals)


def _steps_of(capture: Capture) -> str:
    if not capture.step_source:
        return "none were found, so shares are of the recorded window"
    counts = f"{capture.warmup_steps} to warm up, {capture.recorded_steps} recorded, {capture.timed_steps} timed"
    return f"{wording.plain(capture.step_source)} ({counts})"


def _devices(totals: Totals) -> Iterator[Fact]:
    """At most eight devices: more tell no more, and a report is read by a person."""
    for number, device in list(totals.devices.items())[:8]:
        busy = device.busy_ns / device.span_ns if device.span_ns else 0.0
        kernels = wording.plural(device.kernels, "kernel")
        span = wording.duration(device.span_ns)
        yield Fact(f"Device {wording.plain(number, 40)}", f"busy {wording.share(busy)} of {span}, {kernels}")
    if not totals.devices:
        yield Fact("Device", "none seen: the recording holds no GPU work")


def step_time(diagnosis: Diagnosis) -> tuple[str, ...]:
    """How long a step takes and how that is known, in sentences."""
    step_ns = diagnosis.totals.step_ns
    if step_ns.median is None:
        window = f"the whole recorded window of {wording.duration(diagnosis.totals.span_ns)}"
        span = window if diagnosis.totals.span_ns else "the whole recorded window"
        return (f"No step time: {wording.plain(step_ns.basis)}. Shares are of {span}.",)
    return (f"{wording.steps(step_ns)}. {_sentence(step_ns.basis)}", *_beside_the_step(diagnosis))


def _beside_the_step(diagnosis: Diagnosis) -> Iterator[str]:
    capture = diagnosis.capture
    if capture is None:
        return
    if capture.cold_step_ns is not None:
        yield f"The first, cold step took {wording.duration(capture.cold_step_ns)}."
    noted = any(note.code == "MSR005" for note in diagnosis.health)
    if capture.profiler_overhead is not None and capture.profiler_overhead >= 1.1 and not noted:
        yield f"The profiler made the recorded steps {wording.times(capture.profiler_overhead)} as long."
    yield from (_sentence(wording.plain(cut)) for cut in capture.cut)


def breakdowns(totals: Totals) -> tuple[Breakdown, ...]:
    """Where the step goes, and where the device's time goes; empty where neither is known."""
    found = []
    if totals.step_by_part:
        found.append(_breakdown("Where the recorded step goes", totals.step_by_part))
    if totals.span_ns and totals.devices:
        idle = totals.idle_by_cause or {"idle": totals.idle_ns}
        found.append(_breakdown("Where the device's time goes", {BUSY: totals.busy_ns, **idle}))
    return tuple(breakdown for breakdown in found if breakdown.parts)


def _breakdown(title: str, ns_by_part: Mapping[str, int]) -> Breakdown:
    complete = sum(max(ns, 0) for ns in ns_by_part.values())
    parts = [Part(_part(name), ns, ns / complete) for name, ns in ns_by_part.items() if ns > 0]
    return Breakdown(title, tuple(sorted(parts, key=lambda part: -part.ns)))


def _part(name: str) -> str:
    return _PARTS.get(name) or wording.plain(name.replace("_", " "), 60)


def top_ops(diagnosis: Diagnosis, most: int) -> tuple[Fact, ...]:
    """The ops with the largest self time, over the whole recording."""
    ops = sorted(diagnosis.tables.ops, key=lambda op: -op.self_ns)[:most]
    return tuple(
        Fact(wording.plain(op.name, 60), f"{wording.duration(op.self_ns)} in {wording.plural(op.count, 'call')}")
        for op in ops
    )


def folded(breakdown: Breakdown, most: int) -> tuple[Part, ...]:
    """At most `most` parts: the smallest become "all else", so that they still add up to the whole."""
    shown, rest = breakdown.parts[: most - 1], breakdown.parts[most - 1 :]
    if len(rest) <= 1:
        return breakdown.parts
    else_ns, else_share = sum(part.ns for part in rest), sum(part.share for part in rest)
    return (*shown, Part(f"all else ({len(rest)} kinds)", else_ns, else_share))


def tables(diagnosis: Diagnosis) -> bool:
    """Whether there is a table of kernels, ops, modules, copies, waits or memory to show."""
    known, totals = diagnosis.tables, diagnosis.totals
    rows = known.kernels or known.ops or known.modules or known.syncs or known.memory
    return bool(rows or totals.copies or totals.syncs.count)


def signs(diagnosis: Diagnosis) -> tuple[Sign, ...]:
    """The few numbers to see first. A verified gain and an estimate are two signs, never one."""
    cards = open_cards(diagnosis)
    found = (_step_sign(diagnosis), _verified_sign(diagnosis), _estimated_sign(cards), _rules_sign(diagnosis))
    return tuple(sign for sign in found if sign is not None)


def _step_sign(diagnosis: Diagnosis) -> Sign | None:
    step_ns = diagnosis.totals.step_ns
    if step_ns.median is None:
        return None
    return Sign("Step time", wording.duration(step_ns.median), wording.plain(step_ns.basis))


def _verified_sign(diagnosis: Diagnosis) -> Sign | None:
    best = max(trials_that(diagnosis, "verified"), key=lambda trial: trial.speedup or 0.0, default=None)
    if best is None or not best.speedup:
        return None
    note = f"of the {whole(diagnosis)}, by {wording.name(best.fix)} ({wording.times(best.speedup)})"
    return Sign("Verified gain", wording.share(1 - 1 / best.speedup), note, "verified")


def _estimated_sign(cards: tuple[Card, ...]) -> Sign | None:
    """The largest estimate alone: estimates do not add up."""
    estimated = [card for card in cards if not card.verified and card.finding.stake.share]
    if not estimated:
        return None
    best = max(estimated, key=lambda card: card.finding.stake.share or 0.0)
    figure = f"up to {wording.share(best.finding.stake.share or 0.0)}"
    return Sign("Largest estimate", figure, f"of the {best.whole}, for {wording.name(best.name)}", "estimated")


def _rules_sign(diagnosis: Diagnosis) -> Sign:
    status = [outcome.status for outcome in diagnosis.outcomes]
    found, asked = status.count("found"), status.count("found") + status.count("clean")
    return Sign(
        "Rules asked", wording.count(asked), f"{found} found something, {len(status) - asked} could not be asked"
    )


def environment(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """Versions, device and whatever else was noted of the machine, nested names joined by a blank."""
    return tuple(_flat("", diagnosis.environment))[:200]


def _flat(prefix: str, values: Mapping[str, object]) -> Iterable[Fact]:
    for key, raw in values.items():
        name = f"{prefix} {key}".strip()
        if isinstance(raw, Mapping):
            yield from _flat(name, raw)
        else:
            yield Fact(wording.label(name), wording.value(str(key), raw))


def command(diagnosis: Diagnosis, without: tuple[str, ...] = ()) -> str:
    """The command line that made this document, to be typed again; empty where none is known."""
    words = [word for word in diagnosis.command[1:] if word not in without]
    return wording.plain(shlex.join(["profiler-doctor", *words]), 2000) if words else ""


def next_step(diagnosis: Diagnosis) -> Next:
    """The one command that brings the reader further."""
    cards = open_cards(diagnosis)
    again = command(diagnosis, without=("--no-verify",))
    if diagnosis.capture is None and not cards:
        return Next("To time your own script without a profiler and try cures on it", "profiler-doctor run SCRIPT.py")
    if not cards:
        return Next("To see what was looked for", "profiler-doctor rules")
    if cards[0].verified and again:
        return Next("Paste the verified cure into your program, then see what is left", _what_is_left(diagnosis, again))
    if "--no-verify" in diagnosis.command and again:
        return Next("To try the cures and learn which of them are true", again)
    return Next(
        "What the first finding means and what to do", f"profiler-doctor explain {wording.plain(cards[0].code, 40)}"
    )


def _what_is_left(diagnosis: Diagnosis, again: str) -> str:
    """The command once more; after `verify`, whose fixes are then in the program, a plain `run` of the same."""
    if list(diagnosis.command[1:2]) != ["verify"]:
        return again
    kept, words = ["profiler-doctor", "run"], iter(diagnosis.command[2:])
    for word in words:
        if word == "--":
            kept += [word, *words]
        elif word in _OF_VERIFY:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in _OF_VERIFY)):
            kept.append(word)
    return wording.plain(shlex.join(kept), 2000)


def _sentence(text: str) -> str:
    """With a capital and a full stop, as the phrases of the document come without."""
    phrase = wording.plain(text, 600).strip()
    return "" if not phrase else f"{phrase[0].upper()}{phrase[1:]}" + ("" if phrase[-1] in ".!?…" else ".")
