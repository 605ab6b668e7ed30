"""In a notebook: a function, a block, a trace; what comes back shows itself and holds everything."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest

import profiler_doctor
from tests.trace_builder import TraceBuilder

pytest.importorskip("torch")

MODEL = """
    import torch
    import profiler_doctor as doctor

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.first(x).relu()
"""


def test_completion_offers_what_is_public_before_it_was_loaded() -> None:
    assert {"analyze", "diagnose", "profile", "step"} <= set(dir(profiler_doctor))


def ran(folder: Path, text: str) -> str:
    """Standard output of a script, which is what a notebook's cells are."""
    script = folder / "cell.py"
    script.write_text(textwrap.dedent(MODEL) + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_module_is_called_as_it_is_and_its_illness_is_found(tmp_path: Path) -> None:
    said = ran(
        tmp_path,
        """
        model = Small().eval()
        found = doctor.diagnose(model, torch.randn(4, 8), steps=3)
        print(found.to_json())
        """,
    )

    document = json.loads(said)
    (outcome,) = (each for each in document["outcomes"] if each["code"] == "OPT004")
    assert outcome["status"] == "found"
    assert [step["name"] for step in document["totals"]["steps"]] == [f"ProfilerStep#{n}" for n in range(3)]
    assert document["totals"]["step_ns"]["median"] > 0
    (trial,) = (each for each in document["trials"] if each["fix"] == "inference-mode")
    assert trial["verdict"] == "not_tried"
    assert "notebook" in trial["reason"]


def test_a_function_gets_its_arguments_and_its_line_is_named(tmp_path: Path) -> None:
    said = ran(
        tmp_path,
        """
        def work(x, *, times):
            for _ in range(times):
                x = x.double() * 2
            return x

        found = doctor.diagnose(work, torch.randn(400, 400), times=3)
        for outcome in found.document.outcomes:
            if outcome.code == "PRC004":
                print(outcome.status, outcome.findings[0].where.file, outcome.findings[0].where.line)
        """,
    )

    status, file, line = said.split()
    assert (status, Path(file).name) == ("found", "cell.py")
    assert 10 < int(line) < 20


def test_of_a_program_that_trains_engines_for_inference_are_no_cure(shared: Path) -> None:
    found = profiler_doctor.analyze(shared / "traces" / "hta_a100_nccl_resnet.json.gz")

    reasons = {trial.fix: trial.reason for trial in found.document.trials}
    assert "the script trains" in reasons["torchscript"]
    assert "notebook" in reasons["compile"]


def test_a_block_has_its_diagnosis_once_it_is_over(tmp_path: Path) -> None:
    said = ran(
        tmp_path,
        """
        with doctor.profile("two calls") as block:
            try:
                block.diagnosis
            except RuntimeError as error:
                print(error)
            Small()(torch.randn(2, 8))
            Small()(torch.randn(2, 8))
        print(block.diagnosis.document.subject, block.diagnosis.table("ops").set_index("name")["count"]["aten::addmm"])
        """,
    )

    assert said.splitlines() == ["two calls is still being recorded: ask after the `with` block.", "two calls 2"]


def test_a_trace_shows_itself_and_lends_its_tables(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().op("<script>alert(1)</script>", 0, 100).op("aten::add", 200, 50).write(tmp_path, "trace.json")
    )

    found = profiler_doctor.analyze(trace)

    shown = found._repr_html_()
    assert "<script>" not in shown
    assert found.sentence in shown.replace("&amp;", "&")
    table = found.table("ops")
    assert isinstance(table, pd.DataFrame)
    assert dict(zip(table["name"].astype(str), table["time_ns"], strict=True))["aten::add"] == 50
    assert "ops" in found.tables
    with pytest.raises(KeyError):
        found.table("nothing")


def test_the_reports_can_be_saved(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::add", 200, 50).write(tmp_path, "trace.json")

    folder = profiler_doctor.analyze(trace).save(tmp_path / "report")

    assert {path.name for path in folder.iterdir()} >= {"report.html", "report.md", "diagnosis.json"}


def test_importing_the_package_loads_nothing_of_it() -> None:
    text = "import sys, profiler_doctor; print(sorted(m for m in sys.modules if m in ('numpy', 'pandas', 'torch')))"

    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        profiler_doctor.nothing  # noqa: B018


def test_a_real_notebook_shows_it(samples: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    words = ["--to", "notebook", "--execute", "--output-dir", str(tmp_path), str(samples / "notebook.ipynb")]

    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", *words], capture_output=True, text=True, check=False, timeout=300
    )

    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "notebook.ipynb").read_text("utf-8"))["cells"]
    shown = [out["data"] for cell in cells for out in cell.get("outputs", []) if out["output_type"] == "execute_result"]
    assert "autograd-in-inference" in "".join(shown[0]["text/html"])
    assert "aten::addmm" in "".join(shown[1]["text/html"])
    assert "".join(shown[2]["text/plain"]).endswith(".'")
