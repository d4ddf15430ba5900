"""Commands as a user types them, in this process where that is enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.__main__ import main


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


Harness = Callable[..., Said]


@pytest.fixture
def harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Harness:
    """Runs a command in a working folder of its own: `harness("run", "--k", 5)`."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        capfd.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stopped:  # argparse, for --help and wrong options
            status = int(stopped.code or 0)
        said = capfd.readouterr()
        return Said(status, said.out, said.err)

    return call


@pytest.fixture
def locomo(data: Path) -> list[str]:
    """The options that name the true LoCoMo file."""
    return ["--dataset", "locomo", "--source", str(data / "locomo" / "locomo10.json")]


@pytest.fixture
def longmemeval(data: Path) -> list[str]:
    """The options that name four real questions of LongMemEval."""
    source = data / "longmemeval" / "longmemeval_s_sample.json"
    return ["--dataset", "longmemeval", "--source", str(source)]
