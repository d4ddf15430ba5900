"""Environments that packages are tried in, and how commands are run there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polling import HANGS

TOP = Path(__file__).parents[2]
LINK = "harness/datasets/adapters"
"""What is a symbolic link in a checkout."""


def ran(*command: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, with a bare environment but for `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, **more},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )


def succeeded(*command: object, cwd: Path, **more: str) -> str:
    """What a command prints that must end with status 0."""
    done = ran(*command, cwd=cwd, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def tracked() -> list[str]:
    """Every file that git has or would have, by its path."""
    listed = succeeded(
        *("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), cwd=TOP
    )
    return [name for name in listed.split("\0") if name and os.path.lexists(TOP / name)]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and where its commands keep what they prepare."""

    folder: Path
    home: Path

    def bin(self, name: str) -> Path:
        """A command of it."""
        return self.folder / "bin" / name

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        [found] = self.folder.glob("lib/python3*/site-packages")
        return found

    def pip(self, *arguments: object) -> None:
        """The tests' own pip on this environment, without a network."""
        pip = [sys.executable, "-m", "pip", "--python", self.bin("python"), "-q"]
        succeeded(*pip, *arguments, cwd=self.folder)

    def install(self, what: Path) -> None:
        """Install a wheel, an sdist or, editable, a folder. Its dependencies are there."""
        editable = ["-e"] if what.is_dir() else []
        self.pip("install", "--no-deps", "--no-index", "--no-build-isolation", *editable, what)

    def run(self, cwd: Path, *command: object, **more: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment: `run(folder, "harness", "run", ...)`."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "HARNESS_HOME": str(self.home)}
        return ran(self.bin(str(command[0])), *command[1:], cwd=cwd, **own, **more)

    def runs(self, cwd: Path, *command: object) -> str:
        """What a command prints that must end with status 0."""
        done = self.run(cwd, *command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


Make = Callable[..., Environment]
"""Makes an environment with the core's dependencies and the packages given, in that order."""
