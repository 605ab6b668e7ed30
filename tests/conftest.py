"""What every test may ask for."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from profiler_doctor.analyzer import native
from profiler_doctor.analyzer.formats import _tokens

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def pytest_configure() -> None:
    """Let programs that the tests start be interrupted: a shell's background job hands on that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def shared() -> Path:
    """The folder of real traces and cases beside the project; the test skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("../shared is not here")
    return SHARED


@pytest.fixture
def samples() -> Path:
    return ROOT / "samples"


@pytest.fixture(params=["in C", "in Python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to read chrome traces: a test that asks for it runs once with the tokenizer in C and once without."""
    if request.param == "in Python":
        monkeypatch.setattr(_tokens, "NATIVE", None)
        monkeypatch.setenv(native.PURE, "1")  # for processes that the test starts
    elif _tokens.NATIVE is None:
        pytest.skip("the tokenizer is not here: there was no C compiler, or PROFILER_DOCTOR_PURE is set")
