"""What every test may ask for."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

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
