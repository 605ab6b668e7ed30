"""What the rules on ops that are written out one by one have in common: the same finding, of other chains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from profiler_doctor.analyzer.kinds import Limits, Sighting
from profiler_doctor.analyzer.measures.chains import Chain, described, in_window, stretches
from profiler_doctor.analyzer.measures.one_loop import fused
from profiler_doctor.analyzer.measures.share import share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

AS_ONE_KERNEL = "each as one op, as long as its longest piece or as the memory needs for what goes in and out"
AS_ONE_LOOP = "each as one compiled loop: one pass over the memory, as quick as its quickest op, and its functions"
Find = Callable[[Trace, Limits], Iterable[Sighting]]


def finder(chains: Callable[[Trace], Sequence[Chain]], words: str) -> Find:
    """The question of a rule on such `chains`; `words` begin its sentence: "Norms are written out in single ops"."""

    def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
        """At most one finding, for all of them in the window."""
        found, span = in_window(trace, chains(trace)), window(trace)
        if not found or span is None:
            return
        part = share(trace, [row for chain in found for row in chain.rows])
        yield Sighting(
            message=f"{words}, {len(found) / span.per:.3g} times per {span.unit}: {part:.1%} of {whole(trace)}.",
            where=where_of(trace, max(found, key=lambda chain: chain.moved).rows[0]),
            evidence=described(trace, found) | {"share": part},
            intervals_ns=stretches(trace, found),
            edit=fused(trace, found),
            basis=AS_ONE_KERNEL if len(linked_work(trace)) else AS_ONE_LOOP,
        )

    return find
