"""What marks a step: weigh everything that could, in the order in which it is to be trusted.

Pure: tokens in, a `StepSource` out; no torch, no clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from profiler_doctor.analyzer.capture.child.period import smallest_period
from profiler_doctor.analyzer.capture.plan import SourceKind, StepSource

PATIENCE_FOR_OPTIMIZER = 64
"""Module calls to wait for an optimizer that exists but has not stepped: gradient accumulation seldom goes beyond."""
PATIENCE_FOR_SHAPES = 12
"""Module calls after which shapes are left out of the tokens, where a third of the calls had a shape of its own."""
PATIENCE_FOR_CYCLES = 128
"""The same where shapes do come back: a long answer to a prompt is a long cycle."""
EXPLICIT: tuple[SourceKind, ...] = ("user", "profiler", "range")
"""Marks that somebody set on purpose: believed at once, each starts a step."""


@dataclass
class Discovery:
    """All marks of one thread so far. Module tokens are `serial|training|shapes`, optimizer tokens `serial|class`."""

    step_name: str | None = None
    optimizer_exists: Callable[[], bool] = lambda: False
    names: dict[str, str] = field(default_factory=dict)
    """Kind and serial ("module 0") → class name, for the words."""
    tokens: dict[SourceKind, list[str]] = field(default_factory=lambda: defaultdict(list))
    calls_at_last_optimizer: int = 0

    def add(self, kind: SourceKind, token: str) -> StepSource | None:
        """One more mark; the source, as soon as this very mark settles it.

        `--step NAME` was asked for by name, so nothing else is believed then.
        """
        self.tokens[kind].append(token)
        if self.step_name is not None and kind != "range":
            return None
        if kind in EXPLICIT:
            return StepSource(kind=kind, words=self._words(kind, ()))
        if kind == "optimizer":
            self.calls_at_last_optimizer = len(self.tokens["module"])
        if not _worth_a_look(len(self.tokens[kind])):
            return None
        return self._of("optimizer", self.tokens["optimizer"], 0) if kind == "optimizer" else self._modules()

    def at_the_end(self) -> StepSource | None:
        """The best source for a program that has ended before one was settled, None where nothing repeats."""
        if self.step_name is not None:
            return None
        steps, calls = self.tokens["optimizer"], self.tokens["module"]
        candidates = [self._of("optimizer", steps, 0, True)]
        candidates += [self._of("module", calls, detail, True) for detail in (2, 1, 0)]
        return next(filter(None, candidates), None)

    def _modules(self) -> StepSource | None:
        calls = self.tokens["module"]
        source = self._of("module", calls, 2)
        varied = len(calls) >= PATIENCE_FOR_SHAPES and 3 * len(set(calls)) >= len(calls)
        if source is None and (varied or len(calls) >= PATIENCE_FOR_CYCLES):
            source = self._of("module", calls, 1) or self._of("module", calls, 0)
        waited = len(calls) - self.calls_at_last_optimizer >= PATIENCE_FOR_OPTIMIZER
        if source is None or waited:
            return source
        return None if self.tokens["optimizer"] or self.optimizer_exists() else source

    def _of(self, kind: SourceKind, tokens: Sequence[str], detail: int, ended: bool = False) -> StepSource | None:
        shortened = [shorten(token, detail) for token in tokens]
        period = smallest_period(shortened, after_the_fact=ended)
        if period is None:
            return None
        pattern = tuple(shortened[period.start : period.start + period.length])
        return StepSource(kind=kind, pattern=pattern, detail=detail, words=self._words(kind, pattern))

    def _words(self, kind: SourceKind, pattern: Sequence[str]) -> str:
        fixed = {
            "user": "profiler_doctor.step() in the script",
            "profiler": "the script's own profiler.step()",
            "range": f"ranges called {self.step_name!r}",
        }
        if kind in fixed:
            return fixed[kind]
        return ("optimizer.step of " if kind == "optimizer" else "calls of ") + self._named(kind, pattern)

    def _named(self, kind: SourceKind, pattern: Sequence[str]) -> str:
        counts = Counter(shorten(token, 0) for token in pattern)
        names = [self.names.get(f"{kind} {serial}", "?") for serial in counts]
        times = [f" × {count}" if count > 1 else "" for count in counts.values()]
        shown = [name + many for name, many in zip(names, times, strict=True)][:3]
        return ", ".join(shown) + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")


def settled(source: StepSource) -> StepSource:
    """The source as it is followed once it is believed.

    Where one module alone marks a step, which module it is says all: shapes may differ from step to step.
    """
    if source.kind != "module" or len(source.pattern) != 1:
        return source
    return replace(source, pattern=(shorten(source.pattern[0], 0),), detail=0)


def shorten(token: str, detail: int) -> str:
    """The part of a token that a source of this detail looks at."""
    return "|".join(token.split("|", detail + 1)[: detail + 1])


def _worth_a_look(count: int) -> bool:
    """Every mark at first, then at growing distances: a long history need not be searched at each call."""
    return count <= 32 or count % max(1, count // 16) == 0
