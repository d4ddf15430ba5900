"""What the wheel and the sdist hold, and what they say of themselves."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from environments import LINK, TOP, Environment, succeeded, tracked

import harness

pytestmark = pytest.mark.packaging

INSIDE = {
    "adapters/": "harness/datasets/adapters/",
    "configs/": "harness/cli/data/configs/",
    "examples/": "harness/cli/data/examples/",
}
"""Where the wheel has the folders that stand beside `harness/` in the repository."""


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> Message:
    [found] = (data for name, data in contents(wheel).items() if name.endswith("info/METADATA"))
    return Parser().parsestr(found.decode())


def test_the_wheel_holds_what_git_has_of_the_package_and_nothing_else(
    built: dict[str, Path],
) -> None:
    expected = {name for name in tracked() if name.startswith("harness/")} - {LINK}
    for folder, inside in INSIDE.items():
        own = [name for name in tracked() if name.startswith(folder)]
        assert own
        expected |= {inside + name.removeprefix(folder) for name in own}
    names = set(contents(built["wheel"]))
    about = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - about == expected
    assert {name.split("/", 1)[1] for name in about} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt"),
        "licenses/LICENSE",
    }


def test_nothing_but_harness_takes_a_name_in_site_packages(built: dict[str, Path]) -> None:
    [top] = (data for name, data in contents(built["wheel"]).items() if "top_level" in name)
    assert top.decode().split() == ["harness"]
    assert {
        name.split("/")[0] for name in contents(built["wheel"]) if ".dist-info/" not in name
    } == {"harness"}
    assert "harness/py.typed" in contents(built["wheel"])


def test_the_sdist_holds_all_that_a_build_the_tests_and_the_readme_need(
    built: dict[str, Path],
) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
    parts = ("harness/", *INSIDE, "tests/", "docs/")
    expected = {name for name in tracked() if name.startswith(parts)} - {LINK}
    expected |= {"pyproject.toml", "setup.py", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    assert expected - names == set()
    made = {"PKG-INFO", "setup.cfg"}
    others = {name for name in names - made if "egg-info/" not in name}
    assert others - set(tracked()) == set()
    links = {
        link.rstrip("/")
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (TOP / "README.md").read_text())
    }
    folders = {str(parent) for name in names for parent in Path(name).parents}
    assert {link for link in links - names - folders if (TOP / link).exists()} == set()


def test_the_sdist_and_a_checkout_with_and_without_links_build_the_same_wheel(
    built: dict[str, Path], checkout: Path, unlinked: Path, tmp_path: Path
) -> None:
    wheel = contents(built["wheel"])
    for folder in (checkout, unlinked):
        out = tmp_path / folder.parent.name
        command = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation"]
        succeeded(*command, "--outdir", out, cwd=folder)
        [again] = out.glob("*.whl")
        assert contents(again) == wheel


def test_twine_and_check_wheel_contents_find_nothing(
    built: dict[str, Path], tmp_path: Path
) -> None:
    python = sys.executable
    succeeded(python, "-m", "twine", "check", "--strict", *built.values(), cwd=tmp_path)
    succeeded(python, "-m", "check_wheel_contents", built["wheel"], cwd=tmp_path)


def test_the_version_is_the_same_wherever_it_is_said(
    built: dict[str, Path], installed: Environment, empty: Path
) -> None:
    version = harness.__version__
    assert metadata(built["wheel"])["Version"] == version
    assert built["sdist"].name == f"memory_retrieval_harness-{version}.tar.gz"
    assert installed.runs(empty, "harness", "--version") == f"harness {version}\n"
    cited = yaml.safe_load((TOP / "CITATION.cff").read_text())
    assert cited["version"] == version
    changes = (TOP / "CHANGELOG.md").read_text()
    assert f"\n## [{version}] - {cited['date-released']}\n" in changes
    assert "\n## [Unreleased]\n" in changes
    assert "version" in tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dynamic"]


def test_the_metadata_says_what_a_registry_shows(built: dict[str, Path]) -> None:
    said = metadata(built["wheel"])
    assert said["License-Expression"] == "Apache-2.0 AND CC0-1.0 AND ISC"
    assert said["License-File"] == "LICENSE"
    classifiers = said.get_all("Classifier", [])
    for wanted in ("Development Status", "Intended Audience", "Topic", "Typing :: Typed"):
        assert any(one.startswith(wanted) for one in classifiers), wanted
    assert said["Description-Content-Type"] == "text/markdown"
    assert said["Requires-Python"] == ">=3.11"
