"""What torch.compile tells of itself while it works: graphs that end early, functions compiled again, seconds spent.

Dynamo reports each such thing, as it happens, through one function, for a log that is off. We stand in that function's
place and take note; the log stays off, and the script compiles as it would without us. Names and keys change between
versions of torch, so nothing here relies on any of them being there.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from types import CodeType, FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.compile_facts import Compiled, CompileFacts, GraphBreak, Recompile

MOST = 64
"""Places kept of each kind: more than anybody mends in one sitting."""
MOST_GUARDS = 8
MOST_CHARACTERS = 400
FRAMES_UP = 12
"""How far above a report the code object that it is about may be held."""
BREAK = re.compile(r"^Graph break.*? at (?P<file>.+?):(?P<line>\d+)", re.MULTILINE)
REASON = re.compile(
    r"^(?:Graph Break )?Reason: (?:(?:Encountered|Failed to handle) graph break.*\n\s*)?(?P<reason>.+)$",
    re.MULTILINE,
)
"""Without the line that tells in which bytecode instruction it happened, where the reason proper follows."""
GIVEN_UP = "Skipping the function and falling back to eager"
"""A break in a loop, or in a block that cannot be left: torch then compiles nothing of the function."""
WITHIN = re.compile(r'^\s*File ".+?", line \d+, in (?P<name>\w+)', re.MULTILINE)
HINT = re.compile(r"^\s*Hint: (?P<hint>.+)$", re.MULTILINE)
KIND = re.compile(r"\b(?P<code>gb\d{4})\b", re.IGNORECASE)
PLACE = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+)', re.MULTILINE)
OWN_WORDS = "User code traceback"
NO_ADVICE = "This graph break is fundamental"
LIMIT = re.compile(r"(?:recompile|cache)[_ ]?(?:size )?limit", re.IGNORECASE)
FOREIGN = ("site-packages", "dist-packages", "profiler_doctor/analyzer/", "<frozen", "<eval_with_key>")
CACHES = (
    ("inductor", "fxgraph_cache"),
    ("aot_autograd", "autograd_cache"),
)
"""Headings of dynamo's counters and the beginnings of their keys: `…_hit`, `…_miss`."""


class Compiling:
    """Takes note for as long as `alive`; `facts` is what is known so far."""

    def __init__(self, torch: Any, alive: Callable[[], bool]) -> None:
        self._torch = torch
        self._alive = alive
        self._breaks: dict[tuple[str, int, str], GraphBreak] = {}
        self._recompiles: dict[tuple[str, int, str], Recompile] = {}
        self._places: dict[tuple[str, int], Compiled] = {}
        self._last: tuple[str, int, str] | None = None
        self._compilations = self._compile_us = 0
        self._skips: dict[str, None] = {}

    def install(self) -> Undo:
        """Listen; returns what stops that. Torch before 2.2 has nothing to listen to."""
        if "trace_structured" not in vars(self._torch._logging):
            return lambda: None
        return replaced(self._torch._logging, "trace_structured", self._listening)

    def facts(self) -> CompileFacts:
        """What is known so far."""
        utils = sys.modules.get("torch._dynamo.utils")
        counters: Mapping[str, Mapping[str, int]] = getattr(utils, "counters", {})
        return CompileFacts(
            compilations=self._compilations,
            compile_s=self._compile_us / 1e6,
            compiled_at=tuple(self._places.values()),
            breaks=tuple(self._breaks.values()),
            recompiles=tuple(self._recompiles.values()),
            cudagraph_skips=int(counters["inductor"].get("cudagraph_skips", 0)) if "inductor" in counters else 0,
            cudagraph_skip_reasons=tuple(self._skips),
            cache_hits=_cached(counters, "hit"),
            cache_misses=_cached(counters, "miss"),
        )

    def _listening(self, report: Callable[..., None]) -> Callable[..., None]:
        @wraps(report)
        def reported(name: str, metadata_fn: Callable[[], Any] = dict, **more: Any) -> None:
            if self._alive():
                with contextlib.suppress(Exception):  # what a later torch says may look different
                    self._hear(name, metadata_fn, more.get("payload_fn"))
            report(name, metadata_fn, **more)

        return reported

    def _hear(self, name: str, about: Callable[[], Any], payload: Callable[[], Any] | None) -> None:
        if name == "artifact" and payload is not None:
            kind = about().get("name")
            if kind == "dynamo_graph_break_reason":
                self._broke(str(payload()))
            elif kind == "recompile_reasons":
                self._again(payload())
        elif "compilation_metrics" in name and "runtime" not in name:
            self._compiled(about())

    def _broke(self, text: str) -> None:
        """A graph ended early, and why, in torch's own words."""
        file, line = _place(text)
        reason, kind = REASON.search(text), KIND.search(text)
        said = _short(reason["reason"] if reason else text.partition("\n")[0])
        hints = [match["hint"] for match in HINT.finditer(text)]
        code = kind["code"].upper() if kind else ""
        key = (file, line, code or said)
        known = self._breaks.get(key)
        if known is None and len(self._breaks) >= MOST:
            return
        self._breaks[key] = GraphBreak(
            file=file,
            line=line,
            reason=said,
            hint=_short(next((hint for hint in hints if not hint.startswith(NO_ADVICE)), "")),
            code=code,
            count=known.count + 1 if known else 1,
            uncompiled=_innermost(text) if GIVEN_UP in text else "",
        )

    def _again(self, reasons: Any) -> None:
        """A function is about to be compiled again; the newest of the guards that failed comes first."""
        failed = reasons if isinstance(reasons, str) else str(reasons[0]) if reasons else ""
        if not failed.strip():
            return
        guard = _short(re.sub(r"^\S+/\d+: ", "", failed.strip().partition("\n")[0]))
        code = _code_above(sys._getframe(3))
        file, line = _caller(sys._getframe(3)) or ((code.co_filename, code.co_firstlineno) if code else ("", 0))
        self._last = (file, line, code.co_name if code else "")
        known = self._recompiles.get(self._last)
        if known is None and len(self._recompiles) >= MOST:
            return
        guards = dict.fromkeys((*(known.guards if known else ()), guard))
        self._recompiles[self._last] = Recompile(
            file=file,
            line=line,
            function=self._last[2],
            guards=tuple(guards)[:MOST_GUARDS],
            count=known.count + 1 if known else 1,
            limit_hit=known.limit_hit if known else False,
        )

    def _compiled(self, metrics: Mapping[str, Any]) -> None:
        """One compilation is over."""
        if LIMIT.search(str(metrics.get("fail_reason") or "")) and self._last in self._recompiles:
            seen = self._recompiles[self._last]
            self._recompiles[self._last] = Recompile(**{**vars(seen), "limit_hit": True, "count": seen.count - 1})
            return
        if metrics.get("is_forward") is not False:
            self._compilations += 1
            self._compile_us += int(
                metrics.get("duration_us") or 1e6 * (metrics.get("entire_frame_compile_time_s") or 0)
            )
            self._note_place(str(metrics.get("co_name") or ""), _caller(sys._getframe(3)))
        skipped = metrics.get("cudagraph_skip_reason")
        if skipped and len(self._skips) < MOST_GUARDS:
            self._skips[_short(str(skipped))] = None

    def _note_place(self, function: str, place: tuple[str, int] | None) -> None:
        if place is not None and (place in self._places or len(self._places) < MOST):
            count = self._places[place].count + 1 if place in self._places else 1
            self._places[place] = Compiled(file=place[0], line=place[1], function=function, count=count)


def _cached(counters: Mapping[str, Mapping[str, int]], what: str) -> int:
    return sum(int(counters[head].get(f"{key}_{what}", 0)) for head, key in CACHES if head in counters)


def _innermost(text: str) -> str:
    """The function that the traceback through the user's code ends in."""
    names = WITHIN.findall(text.partition(OWN_WORDS)[2].partition("\nTraceback")[0])
    return names[-1] if names else ""


def _place(text: str) -> tuple[str, int]:
    """The innermost line of the user's own that torch names, else the line at which the graph ended."""
    _, _, traceback = text.partition(OWN_WORDS)
    own = [match for match in PLACE.finditer(traceback) if is_own(match["file"])]
    found = BREAK.search(text)
    if found and (is_own(found["file"]) or not own):
        return found["file"], int(found["line"])
    return (own[-1]["file"], int(own[-1]["line"])) if own else ("", 0)


def is_own(file: str) -> bool:
    """Whether a source file is the user's: neither torch nor another package nor ours."""
    path = file.replace("\\", "/")
    torch = getattr(sys.modules.get("torch"), "__path__", None)
    if torch and path.startswith(tuple(torch)):
        return False
    return not any(part in path for part in FOREIGN) and not path.startswith("<") and "/lib/python3" not in path


def _code_above(frame: FrameType | None) -> CodeType | None:
    """The code that is to be compiled: held in a variable by the function that reports, or by one near above it."""
    for _ in range(FRAMES_UP):
        if frame is None:
            return None
        held = frame.f_locals.get("code")
        if isinstance(held, CodeType):
            return held
        frame = frame.f_back
    return None


def _caller(frame: FrameType | None) -> tuple[str, int] | None:
    """The innermost line of the user's own code that is being executed."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
