"""What `analyze` says of cures for a program that it knows by its trace alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def _untried(trace: Path) -> dict[str, str]:
    words = (sys.executable, "-m", "profiler_doctor", "analyze", str(trace), "--format", "json")
    ended = subprocess.run(words, capture_output=True, encoding="utf-8", check=True)
    return {trial["fix"]: trial["reason"] for trial in json.loads(ended.stdout)["trials"]}


def test_of_a_program_that_trains_engines_for_inference_are_no_cure(shared: Path) -> None:
    reasons = _untried(shared / "traces" / "hta_a100_nccl_resnet.json.gz")

    assert "trains" in reasons["torchscript"]
    assert "only its trace" in reasons["compile"]


def test_of_a_program_that_does_not_train_they_are(shared: Path) -> None:
    reasons = _untried(shared / "traces" / "tracelens_h100_bert_small.json.gz")

    assert "only its trace" in reasons["torchscript"]
