"""A tensor grows by concatenation: each turn of a loop copies all of it to add a little.

What it finds
    Calls of `torch.cat` of which each takes what the one before gave, while nothing else uses what is there in between:
    at least 16 in a row, or, where a step is one turn of the loop, some of which the last adds at most a sixteenth.

Why it costs
    A tensor cannot grow: `cat` allocates a new one and copies the old one over. After n turns about n²/2 pieces have
    been copied to keep n of them.

What to do
    Collect the pieces in a list and concatenate once behind the loop, or allocate the whole tensor before it and write
    into slices of it.

When not to
    Where each turn needs all that has been gathered, as in decoding with a cache of keys and values: there a buffer of
    full length can be slower than what it replaces, unless only its filled part is used. Try before believing.

Source
    RULES.md, CPY007; the documentation of torch.cat.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.growth import Chain, Link, chains, used_between
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.trace import Trace

CALL_NS = 5_000
"""What calling an op takes whatever its size, and what a cure needs once a turn, too: an empty op records as 2-5 µs."""
MOSTLY = 4
"""One turn in so many may use what is there, to look at it now and then."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place where it happens, all steps together."""
    places: dict[tuple[object, ...], list[Chain]] = {}
    for chain in chains(trace):
        if _grows(chain, limits) and used_between(trace, chain) * MOSTLY <= len(chain.links):
            first, last = chain.links[0], chain.links[-1]
            places.setdefault((first.given, last.result), []).append(chain)
    for found in places.values():
        part = share(trace, [link.row for chain in found for link in chain.links])
        if part >= limits["share"]:
            yield _sighting(trace, found, part)


def _grows(chain: Chain, limits: Limits) -> bool:
    """Whether the loop has made enough turns, seen or to be told by the size of what is there."""
    seen = len(chain.links)
    return seen >= limits["turns"] or (seen >= limits["seen"] and chain.links[-1].turns >= limits["turns"])


def _sighting(trace: Trace, found: list[Chain], part: float) -> Sighting:
    links = [link for chain in found for link in chain.links]
    last = found[0].links[-1]
    turns = max(len(found[0].links), last.turns)
    return Sighting(
        message=f"A tensor grows to {'×'.join(map(str, last.result))} by {turns} concatenations, each of which copies "
        f"all of it; they take {part:.0%} of {whole(trace)}.",
        where=where_of(trace, last.row),
        evidence={"turns": turns, "loops": len(found), "seen": len(found[0].links), "share": part},
        intervals_ns=intervals_of(trace, [link.row for link in links]),
        edit=Edit(keep={link.row: _kept(trace, link) for link in links}),
        basis="each piece written once",
    )


def _kept(trace: Trace, link: Link) -> float:
    """The share of a concatenation that stays: to write what is new, and no less than a call."""
    return min(1.0, max(link.new_share, CALL_NS / max(int(trace.events.dur_ns[link.row]), 1)))


RULE = Rule(
    code="CPY007",
    name="growth-by-cat",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={
        "turns": Threshold(16, "turns", "fewer copy a handful of times what they keep; a dense block has as many"),
        "seen": Threshold(
            3, "concatenations", "of which each takes what the one before gave: with fewer it may be chance"
        ),
        "share": Threshold(0.02, "share of the step", "less is not worth another way to write the loop"),
    },
)
