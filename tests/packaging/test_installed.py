"""The main job runs however the harness was installed, whatever else is there by similar names."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import orjson
import pytest
from environments import LINK, TOP, Environment, Make, succeeded

from harness.io.records import convert
from harness.records.scores import ScoreReport

pytestmark = pytest.mark.packaging

MAIN_JOB = ("run", "--dataset", "sample", "--retriever", "bm25")


def does_the_main_job(
    environment: Environment, folder: Path, *command: object, workers: int = 1
) -> None:
    """Run it and look at the number that it is known for."""
    out = f"results-{len(list(folder.iterdir()))}"  # every time anew
    more = ("--workers", workers, "--out", out, "--json")
    said = environment.runs(folder, *command, *MAIN_JOB, *more)
    scores = convert(orjson.loads(said)["scores"], ScoreReport, "output")
    value = scores.protocols[0].slices["all"].metrics["recall@10"].value
    assert value is not None
    figures = orjson.loads((TOP / "docs" / "figures" / "sample.json").read_bytes())
    assert round(value, 5) == figures["bm25"]["memory"]["all"]["recall@10"]


@pytest.fixture(scope="session")
def other_adapters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the registry that is called `adapters`, without what it needs."""
    folder = tmp_path_factory.mktemp("adapters")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    succeeded(*pip, "-d", folder, "adapters", cwd=folder)
    [wheel] = folder.glob("adapters-*.whl")
    return wheel


@pytest.fixture(scope="session", params=["wheel", "sdist", "editable"])
def package(request: pytest.FixtureRequest, built: dict[str, Path], checkout: Path) -> Path:
    """What is given to pip."""
    return checkout if request.param == "editable" else built[request.param]


def test_a_package_and_folders_of_the_same_names_do_no_harm(
    package: Path, other_adapters: Path, environment: Make, empty: Path
) -> None:
    before = environment(other_adapters, package)
    does_the_main_job(before, empty, "harness")
    one = environment(package, other_adapters)
    assert (one.packages / "adapters" / "__init__.py").is_file()
    does_the_main_job(one, empty, "harness")
    does_the_main_job(one, empty, "python", "-m", "harness")

    (empty / "adapters").mkdir()
    does_the_main_job(one, empty, "python", "-m", "harness")
    (empty / "adapters" / "__init__.py").write_text("raise ImportError('not this one')\n")
    does_the_main_job(one, empty, "python", "-m", "harness")

    (empty / "harness").mkdir()
    does_the_main_job(one, empty, "harness")
    (empty / "harness" / "__init__.py").write_text("raise ImportError('not this one')\n")
    does_the_main_job(one, empty, "harness", workers=2)


def test_nothing_of_a_checkout_can_be_imported_where_it_is_installed(
    environment: Make, checkout: Path, empty: Path
) -> None:
    one = environment(checkout)
    for name in ("adapters", "configs", "examples", "tests"):
        assert one.run(empty, "python", "-c", f"import {name}").returncode == 1


@pytest.mark.parametrize("kind", ["as it is", "without links", "links followed"])
def test_a_checkout_runs_without_an_installation(
    kind: str, checkout: Path, unlinked: Path, environment: Make, tmp_path: Path
) -> None:
    folder = {"as it is": checkout, "without links": unlinked}.get(kind)
    if folder is None:
        folder = tmp_path / "copy"
        shutil.copytree(checkout, folder)
        assert not (folder / LINK).is_symlink()
    does_the_main_job(environment(), folder, "python", "-m", "harness")


@pytest.fixture
def third_party(tmp_path: Path) -> Path:
    """A package with the adapter of the guide and a retriever, known by entry points."""
    guide = (TOP / "docs" / "how-to" / "write-an-adapter.md").read_text()
    [adapter] = re.findall(r"```python title.*?\n(.*?)```", guide, re.S)
    folder = tmp_path / "somebody-s"
    (folder / "somebody_s").mkdir(parents=True)
    (folder / "somebody_s" / "__init__.py").write_text("")
    (folder / "somebody_s" / "notes.py").write_text(adapter)
    (folder / "somebody_s" / "newest.py").write_text(
        "def newest(text, k, corpus):\n    return [document.id for document in corpus][-k:]\n"
    )
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "somebody-s"\nversion = "1.0"\n'
        '[project.entry-points."harness.adapters"]\nnotes = "somebody_s.notes:Notes"\n'
        '[project.entry-points."harness.retrievers"]\nnewest = "somebody_s.newest:newest"\n'
    )
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation"]
    succeeded(*command, "--outdir", tmp_path, cwd=folder)
    [wheel] = tmp_path.glob("somebody_s-*.whl")
    return wheel


def test_adapters_and_retrievers_of_other_packages_are_found(
    environment: Make, built: dict[str, Path], third_party: Path, empty: Path
) -> None:
    one = environment(built["wheel"], third_party)
    guide = (TOP / "docs" / "how-to" / "write-an-adapter.md").read_text()
    [notes] = re.findall(r"```json title.*?\n(.*?)```", guide, re.S)
    (empty / "notes.json").write_text(notes)
    given = ("run", "--dataset", "notes", "--source", "notes.json", "--json")
    for retriever in ("newest", "bm25"):
        said = orjson.loads(one.runs(empty, "harness", *given, "--retriever", retriever))
        assert (said["run"]["queries"]["asked"], said["run"]["queries"]["failed"]) == (1, 0)
    assert "notes" in one.runs(empty, "harness", "datasets")
    assert "newest" in one.runs(empty, "harness", "retrievers")
