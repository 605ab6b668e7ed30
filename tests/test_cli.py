"""The command line, as a shell sees it: streams, exit codes, sentences."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import profiler_doctor
from tests.trace_builder import TraceBuilder

HEAVY = ("numpy", "pandas", "scipy", "plotly", "jinja2", "msgspec", "psutil", "torch")


def _ask(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler_doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, stdin=subprocess.DEVNULL)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom profiler_doctor.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "Usage" in said
    assert said.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "Name the script to run"),
        (["run", "no_such.py"], "no_such.py"),
        (["run", "--try", "no-such-fix", "x.py"], "there is no such fix"),
        (["run", "--select", "NOPE", "x.py"], "no rule, family or name 'NOPE'"),
        (["run", "--format", "pdf", "x.py"], "there is no such report"),
        (["run", "--fail-on", "terrible", "x.py"], "choose from found, low, medium, high"),
        (["analyze", "no_such.json"], "no_such.json"),
        (["run", "--out", "/dev/null/x", "x.py"], "/dev/null is no folder"),
        (["analyze", "--out", "/dev/null", "x.json"], "/dev/null is no folder"),
        (["run", "--tensorboard", "/dev/null/x", "x.py"], "/dev/null is no folder"),
        (["rules", "--format", "nonsense"], "choose from text, json, md"),
        (["explain", "NOPE1"], "No rule or fix is called"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_on_standard_error_and_exit_2(
    tmp_path: Path, words: list[str], says: str
) -> None:
    asked = _ask(*words, cwd=tmp_path)

    assert asked.returncode == 2
    assert says in asked.stderr
    assert asked.stdout == ""
    assert "Traceback" not in asked.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_trace_is_refused_with_the_byte_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("  hello")

    asked = _ask("analyze", str(tmp_path / "notes.txt"))

    assert asked.returncode == 2
    assert "byte 2" in asked.stderr


def test_the_document_alone_is_on_standard_output(shared: Path) -> None:
    asked = _ask("analyze", "--format", "json", str(shared / "traces" / "hta_a100_nccl_resnet.json.gz"))

    document = json.loads(asked.stdout)

    assert asked.returncode == 0
    assert document["schema_version"] == 1
    assert document["totals"]["kernels"] == 2700


@pytest.mark.parametrize(("level", "code"), [("found", 1), ("high", 1), ("medium", 1)])
def test_fail_on_turns_findings_into_exit_1(shared: Path, level: str, code: int) -> None:
    trace = str(shared / "traces" / "hta_a100_nccl_resnet.json.gz")

    assert _ask("analyze", "--quiet", "--fail-on", level, trace).returncode == code


def test_fail_on_a_level_that_nothing_reaches_is_exit_0(shared: Path) -> None:
    trace = str(shared / "traces" / "hta_a100_nccl_resnet.json.gz")

    assert _ask("analyze", "--select", "LAY001", "--fail-on", "high", trace).returncode == 0


def test_the_files_go_where_out_says(shared: Path, tmp_path: Path) -> None:
    _ask("analyze", "--out", str(tmp_path / "out"), str(shared / "traces" / "tracelens_h100_vit.json.gz"))

    names = {path.name for path in (tmp_path / "out").iterdir()}

    assert names == {"report.html", "report.md", "diagnosis.json", "trace-with-findings.json.gz"}


def test_explain_lists_the_fixes_and_offers_the_nearest_name() -> None:
    listed, missed = _ask("explain", "fixes").stdout, _ask("explain", "chanels-last")

    assert "channels-last" in listed
    assert "do-nothing" not in listed  # hidden: it is the placebo
    assert "Is it channels-last?" in missed.stderr
    assert missed.returncode == 2


def test_rules_and_explain_print_the_docs() -> None:
    listed = json.loads(_ask("rules", "--format", "json").stdout)
    told = _ask("explain", "LCH001").stdout

    assert "LCH001" in {rule["code"] for rule in listed}
    assert "host-bound-launch" in told
    assert "Thresholds" in told


def test_the_version_names_what_changes_a_measurement() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "profiler_doctor", "--version"], capture_output=True, text=True, check=True
    )

    ours, others = done.stdout.splitlines()
    assert ours == f"profiler-doctor {profiler_doctor.__version__}"
    assert f"Python {platform.python_version()}, torch " in others
    assert f"numpy {numpy.__version__}" in others
    assert "accelerators" in others


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_a_sentence_and_exit_2() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "profiler_doctor", "rules"]
        asked = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert asked.returncode == 2
    assert asked.stderr == "profiler-doctor: The output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("words", ["rules", "--help", "explain LCH001", "rules --format json"])
def test_a_reader_that_has_gone_ends_it_quietly(words: str) -> None:
    command = f"{sys.executable} -m profiler_doctor {words} | true; echo ${{PIPESTATUS[0]}}"

    asked = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert asked.stdout in ("0\n", "141\n")
    assert asked.stderr == ""


def test_a_folder_that_is_gone_is_a_sentence_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd {tmp_path}/gone; rmdir {tmp_path}/gone; {sys.executable} -m profiler_doctor run x.py"

    asked = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert asked.returncode == 2
    assert asked.stderr == "profiler-doctor: the current folder is no longer there. Change to another one.\n"


def test_an_answer_is_shown_even_where_its_files_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    trace = TraceBuilder().op("aten::mm", 0, 100).write(tmp_path, "trace.json")

    asked = _ask("analyze", str(trace), "--out", str(tmp_path / "out"))

    assert "Findings" in asked.stdout
    assert "report.html cannot be written" in asked.stderr
    assert "Traceback" not in asked.stderr
    assert asked.returncode == 2


def test_a_closed_standard_output_is_no_fault(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    )

    command = f"{sys.executable} -m profiler_doctor analyze {trace} --out {tmp_path} >&-"
    asked = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (asked.returncode, asked.stderr) == (0, "")
    assert json.loads((tmp_path / "diagnosis.json").read_text())["schema_version"] == 1
