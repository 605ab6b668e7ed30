"""`profiler-doctor mcp`: the protocol's own client calls our tools, and gets answers that fit."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.verbs import mcp as verb
from tests.trace_builder import TraceBuilder

mcp = pytest.importorskip("mcp")


def called(*calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Names of the tools, and the text of each call's answer."""

    async def session() -> tuple[list[str], list[str]]:
        server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "profiler_doctor", "mcp"])
        async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()
            names = [tool.name for tool in (await client.list_tools()).tools]
            answers = [await client.call_tool(name, given) for name, given in calls]
            return names, ["".join(part.text for part in answer.content) for answer in answers]

    return asyncio.run(asyncio.wait_for(session(), 120))


def test_an_agent_gets_findings_tables_and_docs(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(3):
        built.step(step, step * 1_000_000, 1_000_000)
        for kernel in range(20):
            at = step * 1_000_000 + kernel * 50_000
            built.launch("k", (at, 2_000), (at + 4_000, 2_000))
    trace = str(built.write(tmp_path, "trace.json"))

    names, (analyzed, kernels, explained, missing) = called(
        ("analyze", {"traces": [trace]}),
        ("table", {"name": "kernels", "trace": trace, "top": 1}),
        ("explain", {"code": "LCH001"}),
        ("analyze", {"traces": [str(tmp_path / "nowhere.json")]}),
    )

    assert sorted(names) == ["analyze", "explain", "run", "table", "verify"]
    document = json.loads(analyzed)
    assert "LCH001" in [finding["code"] for finding in document["findings"]]
    assert document["verdict"]["exit_code"] == 0
    assert kernels.splitlines()[1].startswith("k,60,")
    assert "host-bound-launch" in explained
    assert missing.startswith("It ended with exit code 2: ")
    assert "nowhere.json" in missing


def test_what_a_script_prints_does_not_get_into_the_protocol(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('{not json')\nraise SystemExit('no torch here')\n")

    _, (answer,) = called(("run", {"script": str(script), "try_fixes": False, "budget_s": 20}))

    assert answer.startswith("It ended with exit code 2: ")


def test_a_long_answer_is_cut_and_says_so() -> None:
    assert verb._cut("x" * 100, 200) == "x" * 100
    cut = verb._cut("x" * 300, 200)
    assert len(cut) == 200
    assert cut.endswith("… cut here: 300 characters in all")


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError\n")
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from profiler_doctor.cli import main; main()",
    ]

    ended = subprocess.run([*command, str(tmp_path), "mcp"], capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "pip install 'profiler-doctor[mcp]'" in ended.stderr
