"""The program ran, or found, a compiled file that was made for another device.

What it finds
    An AOTInductor package (`aoti_load_package`) whose code was built for another instruction set than torch would
    choose on this CPU, or for another compute capability than this GPU's. And engines of TensorRT that ONNX Runtime had
    kept from another GPU: it passed them over and built new ones during this run.

Why it costs
    It does not by itself, but it makes the numbers those of another machine. Code for AVX2 leaves half of an AVX-512
    unit unused; a kernel tuned for one GPU has the tile sizes of that one. An engine that is built anew takes minutes,
    which are in the time of whatever is timed from the start.

What to do
    Build the package on the machine that is measured, or name in its path what it was built for. Keep one folder of
    engines for each kind of GPU, and let the program run once before it is timed.

When not to
    Where one file has to serve all machines, and its time on this one is what you want to know. A machine without a
    compiler cannot tell what torch would choose, and nothing is said there. Caches that hold the device in their key
    (Triton's, Inductor's) pass such entries over by themselves; their compiling is told by COM001.

Source
    torch's own comparison when it loads a package (`torch.export.pt2_archive`); the names that ONNX Runtime gives to
    TensorRT's engines. The half about GPUs was tested on made-up facts alone, never on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from profiler_doctor.analyzer.facts import ArtefactFacts
from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

DECIDES = {"cpu": "instruction set", "cuda": "compute capability"}
"""Device → what its code is chosen by. A package for a GPU holds host code too, which only launches."""
UNKNOWN = ("", "INVALID_VEC_ISA", "NONE")
"""What torch writes where it cannot tell, as without a compiler."""
PASSED_OVER = "TensorRT engine"


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """One note for each such file."""
    for artefact in trace.facts.artefacts if trace.facts else ():
        what = DECIDES.get(artefact.device, "")
        built_for, here = (_first(side.get(what, "")) for side in (artefact.built_for, artefact.here))
        if built_for == here or built_for in UNKNOWN or here in UNKNOWN:
            continue
        yield Sighting(
            message=_message(artefact, what, _shown(built_for), _shown(here)),
            where=Where(file=artefact.file or None, line=artefact.line or None),
            evidence={"events": 1, "path": artefact.path, "built_for": built_for, "here": here},
            grave=False,
        )


def _first(told: str) -> str:
    """How wide the units are, without the extras behind it: older versions of torch name fewer of the same CPU's."""
    return told.upper().partition(" ")[0]


def _shown(told: str) -> str:
    """A compute capability as NVIDIA writes it."""
    return f"{told[:-1]}.{told[-1]}" if told.isdecimal() and len(told) > 1 else told


def _message(artefact: ArtefactFacts, what: str, built_for: str, here: str) -> str:
    name = Path(artefact.path).name or f"an {artefact.kind}"
    if artefact.kind == PASSED_OVER:
        return (
            f"{name} was built for {what} {built_for}, and the GPU here has {here}: ONNX Runtime passed it over and "
            "built another during this run, which is in the time of what was timed from the start."
        )
    loads = f"{Path(artefact.file).name}:{artefact.line} loads" if artefact.file else "The program loads"
    return (
        f"{loads} {name}, which was built for the {what} {built_for}; torch would choose {here} here, so its times are "
        "not those of a package built on this machine."
    )


RULE = Rule(
    code="MSR009",
    name="artefact-of-another-device",
    doc=__doc__,
    find=find,
    needs=(Has.CAPTURE,),
)
