"""`profiler-doctor mcp`: our verbs as tools of the Model Context Protocol, over standard input and output.

Each tool starts the verb in a process of its own, so that nothing that a script prints can get into the protocol, and
answers within LIMIT: an agent has to read it all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from profiler_doctor import __version__
from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.model import ONLY_A_TRIAL

LIMIT = 60_000
"""Characters of an answer; some 15,000 tokens."""
LEAST_MATTERS = 0.01
"""Findings below this share of the step are counted, not told."""
LONGEST_EVIDENCE = 600
"""Characters of one finding's evidence."""
ABOUT = (
    "Finds out why a PyTorch program is slow. `run` records a script, names what costs time, tries the cures on it and "
    "says which are verified; only a verified gain was measured, a stake is an estimate. `verify` tries fixes that you "
    "name. `analyze` reads a trace that was captured elsewhere, `table` gives its tables, `explain` a rule or a fix."
)


class NoProtocol(UserError):
    """The `mcp` package is not installed."""


def serve() -> ExitCode:
    """Serve until the client goes. Raises NoProtocol."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise NoProtocol(
            "The `mcp` package (2.0 or later) is not here: pip install 'profiler-doctor[mcp]' brings it."
        ) from error
    server = MCPServer("profiler-doctor", version=__version__, instructions=ABOUT, log_level="ERROR")
    for tool in (run, verify, analyze, table, explain):
        server.tool()(tool)
    server.run()
    return ExitCode.FINE


def run(script: str, arguments: list[str] | None = None, budget_s: float = 120.0, try_fixes: bool = True) -> str:
    """Record a Python script, say why it is slow, try the cures; the script runs again for each trial."""
    more = [] if try_fixes else ["--no-verify"]
    return _document("run", script, "--budget", str(budget_s), *more, *_own(arguments))


def verify(script: str, fixes: list[str], arguments: list[str] | None = None, budget_s: float = 120.0) -> str:
    """Try the named fixes on a script: verified, rejected, inconclusive or not tried, with the interval of the gain."""
    return _document("verify", script, "--fix", ",".join(fixes), "--budget", str(budget_s), *_own(arguments))


def analyze(traces: list[str]) -> str:
    """Say what is in a profiler trace (Kineto, Nsight, rocprof, ONNX Runtime, JAX), or in all ranks of a job."""
    return _document("analyze", *traces)


def table(name: str, trace: str, top: int = 50) -> str:
    """One table of a trace as CSV: kernels, ops, modules, copies, idle, memory, …; an unknown name lists them."""
    return _said("table", name, trace, "--format", "csv", "--top", str(top))


def explain(code: str) -> str:
    """What a rule (LCH001, …) or a fix (channels-last, …) is about: what it finds, what to do, when not to."""
    return _said("explain", code)


def _own(arguments: list[str] | None) -> list[str]:
    return ["--", *arguments] if arguments else []


def _document(*words: str) -> str:
    ended = _ended(words[0], "--format", "json", "--quiet", *words[1:])
    try:
        found = json.loads(ended.stdout)
    except ValueError:
        return _complaint(ended)
    documents = found if isinstance(found, list) else [found]
    room = LIMIT // len(documents)
    return _cut("\n".join(_cut(json.dumps(_told(document), indent=1), room) for document in documents))


def _said(*words: str) -> str:
    ended = _ended(*words)
    return _cut(ended.stdout) if ended.returncode == 0 else _complaint(ended)


def _ended(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler_doctor", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)


def _complaint(ended: subprocess.CompletedProcess[str]) -> str:
    said = ended.stderr.strip() or ended.stdout.strip()
    return _cut(f"It ended with exit code {ended.returncode}: {said[-LIMIT // 10 :]}")


def _told(document: dict[str, Any]) -> dict[str, Any]:
    """What an agent acts on: the verdict, the step, what was found, tried and could not be known."""
    found = [outcome for outcome in document["outcomes"] if outcome["status"] == "found"]
    crashed = [
        f"{outcome['code']}: {outcome['reason']}" for outcome in document["outcomes"] if outcome["status"] == "crashed"
    ]
    kept = ("events", "step_ns", "span_ns", "busy_ns", "idle_by_cause")
    return {
        **{key: document[key] for key in ("schema_version", "subject", "verdict", "joint_stake", "trials")},
        "totals": {key: document["totals"][key] for key in kept if key in document["totals"]},
        "findings": [
            _finding(outcome, finding) for outcome in found for finding in outcome["findings"] if _matters(finding)
        ],
        "crashed": crashed,
        "health": [f"{note['code']}: {note['message']}" for note in document["health"]],
    }


def _matters(finding: dict[str, Any]) -> bool:
    share = finding["stake"]["share"]
    return share is None or bool(share >= LEAST_MATTERS)


def _finding(outcome: dict[str, Any], finding: dict[str, Any]) -> dict[str, Any]:
    evidence = {key: value for key, value in finding["evidence"].items() if key != "intervals_ns"}
    told = json.dumps(evidence)
    stake = finding["stake"] if finding["stake"]["share"] is not None else ONLY_A_TRIAL
    return {
        "code": outcome["code"],
        "name": outcome["name"],
        "message": finding["message"],
        "stake": stake,
        "where": finding["where"],
        "cures": finding["cures"],
        "evidence": evidence if len(told) <= LONGEST_EVIDENCE else _cut(told, LONGEST_EVIDENCE),
    }


def _cut(text: str, limit: int = LIMIT) -> str:
    """The text, or its beginning and a word on what is missing."""
    note = f"\n… cut here: {len(text):,} characters in all"
    return text if len(text) <= limit else text[: limit - len(note)] + note
