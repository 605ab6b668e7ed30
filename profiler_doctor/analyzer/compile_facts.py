"""What torch.compile did while the script ran: its graphs, their breaks, and why they were made anew."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GraphBreak:
    """One place where torch.compile had to end a graph and go on with another; empty and 0 where it did not say."""

    file: str = ""
    line: int = 0
    reason: str = ""
    """In torch's words, one line."""
    hint: str = ""
    """What torch itself advises, one line."""
    code: str = ""
    """torch's own number of the kind of break (GB0156), where it gives one."""
    count: int = 1
    uncompiled: str = ""
    """Name of the function of which torch compiles nothing because of it, where that is so."""


@dataclass(frozen=True, kw_only=True)
class Recompile:
    """One function that was compiled again, and why."""

    file: str = ""
    line: int = 0
    """Its first line."""
    function: str = ""
    guards: tuple[str, ...] = ()
    """The distinct guards that failed, in torch's words, at most 8."""
    count: int = 1
    limit_hit: bool = False
    """The limit of recompilations was reached: since then its calls run uncompiled."""


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """One line of the user's own at which functions were compiled when it called them."""

    file: str
    line: int
    function: str
    """The function that was compiled last; often one of torch's own around the user's."""
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class CompileFacts:
    """What torch.compile did in the whole run, from its start on; all empty where it was not used."""

    compilations: int = 0
    compile_s: float = 0.0
    """Wall time of all of them."""
    compiled_at: tuple[Compiled, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    cudagraph_skips: int = 0
    cudagraph_skip_reasons: tuple[str, ...] = ()
    cache_hits: int = 0
    """Of inductor's and autograd's caches on disk."""
    cache_misses: int = 0
