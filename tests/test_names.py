"""Workers share the tests out by their names, so every process must find the same ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import ROOT


@pytest.mark.slow
def test_every_start_finds_the_same_tests_under_the_same_names() -> None:
    """Two starts, seconds apart and with other hashes: no time, set or address is in a name."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:harness-quality-summary", "-o", "addopts="]
    first, second = (
        subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    )
    names = [line for line in first if "::" in line]
    assert len(names) > 1000
    assert names == [line for line in second if "::" in line]
