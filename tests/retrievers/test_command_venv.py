"""A command runs in a virtual environment of its own, whose packages are not ours."""

from __future__ import annotations

import venv
from pathlib import Path

import numpy as np
import pytest
from notes import SharedWords, corpus
from places import EXAMPLES

from harness.datasets.registry import open_dataset
from harness.errors import RunError, UsageError
from harness.retrievers.command import Command
from harness.retrievers.contract import Hit, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run

MINE = """
import os, sys
import numpy  # of the environment: ours would be another

class Mine:
    def __init__(self, name="nobody"):
        self.name = name

    def index(self, corpus):
        print("taking in", len(corpus))
        self.corpus = list(corpus)

    async def search(self, queries, k):
        told = [numpy.__version__, os.environ["VIRTUAL_ENV"], sys.prefix, self.name]
        return [[{"text": "|".join(told), "sources": [self.corpus[0].id, 1]}] for _ in queries]

class SharedWords:
    def index(self, corpus):
        self.words = [set(text.lower().split()) for text in corpus.contents]

    def search(self, queries, k):
        return [self.best(set(query.text.lower().split()))[:k] for query in queries]

    def best(self, asked):
        scores = [len(asked & words) for words in self.words]
        return [(i, scores[i]) for i in sorted(range(len(scores)), key=lambda i: -scores[i])]
"""


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """An environment in which numpy is of a version that there never was."""
    folder = tmp_path / "theirs"
    venv.create(folder, with_pip=False)
    install(folder, "0.0.1")
    return folder


def install(folder: Path, version: str) -> None:
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "numpy.py").write_text(f"__version__ = {version!r}\n")
    for old in packages.glob("numpy-*.dist-info"):
        old.rmdir()
    (packages / f"numpy-{version}.dist-info").mkdir()


@pytest.fixture
def served(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"python {EXAMPLES / 'serve_class.py'} {tmp_path / 'mine.py'}"


def test_its_python_has_its_packages_and_its_prefix(theirs: Path, served: str) -> None:
    command = Command(f"{served}:Mine name=mira", venv=str(theirs))
    command.index(corpus(["a", "b"]))
    (found,) = command.search([Question("?")], 5)
    command.close()
    assert np.__version__ != "0.0.1"
    assert found.hits == [Hit(f"0.0.1|{theirs}|{theirs}|mira", ["d1", "d0"], None)]


def test_a_plain_class_served_there_ranks_as_it_does_here(
    theirs: Path, served: str, home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    params = {"run": f"{served}:SharedWords", "venv": str(theirs)}
    there = run(dataset, RetrieverSpec("command", params), out=tmp_path / "there")
    here = run(dataset, SharedWords(), out=tmp_path / "here")  # type: ignore[arg-type]
    told, local = (read_rankings(RunFolder(f).rankings) for f in (there, here))
    assert told.document.equals(local.document)


def test_another_version_of_a_package_is_another_revision(theirs: Path, served: str) -> None:
    before = Command(served, venv=str(theirs)).revision
    assert Command(served, venv=str(theirs)).revision == before
    install(theirs, "0.0.2")
    assert Command(served, venv=str(theirs)).revision != before


def test_a_folder_that_is_no_environment_is_said_at_once(tmp_path: Path, theirs: Path) -> None:
    (tmp_path / "plain").mkdir()
    for folder, said in [("nowhere", "there is no folder"), ("plain", "not a virtual environment")]:
        with pytest.raises(UsageError, match=said):
            RetrieverSpec("command", {"run": "python", "venv": str(tmp_path / folder)}).build()
    (theirs / "bin" / "python").unlink()
    (theirs / "bin" / "python").symlink_to(tmp_path / "removed")
    with pytest.raises(UsageError, match="does not run"):
        RetrieverSpec("command", {"run": "python", "venv": str(theirs)}).build()


def test_a_program_that_cannot_be_started_ends_the_run(theirs: Path) -> None:
    program = theirs / "bin" / "memory"
    program.write_text(f"#!{theirs}/moved/python\n")
    program.chmod(0o755)
    with pytest.raises(RunError, match="'memory --fast' cannot be started"):
        Command("memory --fast", venv=str(theirs)).index(corpus(["a"]))
