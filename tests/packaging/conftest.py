"""What the tests of packages share: a checkout, what is built from it, and environments to try it.

An environment is a real one. Its dependencies are those that the core declares, and what these
need in turn, linked from the environment of the tests: nothing else of it can be imported there.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from environments import LINK, TOP, Environment, Make, succeeded, tracked
from packaging.requirements import Requirement


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git has, with the link, and without what else lies around."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, folder / name, follow_symlinks=False)
    assert (folder / LINK).is_symlink()
    return folder


@pytest.fixture(scope="session")
def unlinked(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout as a system or an archive without symbolic links leaves it."""
    folder = tmp_path_factory.mktemp("unlinked") / "checkout"
    shutil.copytree(checkout, folder, symlinks=True)
    (folder / LINK).unlink()
    (folder / LINK).write_text("../../adapters")
    return folder


@pytest.fixture(scope="session")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel that is built from it: what a release uploads."""
    out = tmp_path_factory.mktemp("dist")
    succeeded(sys.executable, "-m", "build", "-q", "--outdir", out, cwd=checkout)
    [wheel], [sdist] = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="session")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the core needs to run, and setuptools to build with; nothing else."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], "setuptools"]
    folder = tmp_path_factory.mktemp("dependencies")
    for found in _closure(wanted).values():
        files = found.files
        assert files is not None
        for name in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (folder / name).exists():
                (folder / name).symlink_to(Path(str(found.locate_file(name))))
    return folder


def _closure(wanted: list[str]) -> dict[str, Distribution]:
    """The installed distributions that requirements name, and what those need."""
    found: dict[str, Distribution] = {}
    asked = [Requirement(one) for one in wanted]
    while asked:
        one = asked.pop()
        if one.name in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found[one.name] = distribution(one.name)
        asked += map(Requirement, found[one.name].requires or ())
    return found


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for all environments."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def environment(dependencies: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes environments that have the dependencies, and installs packages one after the other."""

    def make(*packages: Path) -> Environment:
        folder = tmp_path_factory.mktemp("venv")
        succeeded(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
        one = Environment(folder, home)
        (one.packages / "dependencies.pth").write_text(f"{dependencies}\n")
        for package in packages:
            one.install(package)
        return one

    return make


@pytest.fixture(scope="session")
def installed(environment: Make, built: dict[str, Path]) -> Environment:
    """An environment with the wheel."""
    return environment(built["wheel"])


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A folder with nothing in it, outside of any checkout."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder
