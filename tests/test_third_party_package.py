"""A package of a third party adds to every kind of extension, by entry points alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

ENTRY_POINTS = """
[harness.adapters]
colours = third_party.data:Colours

[harness.retrievers]
backwards = third_party.retriever:Backwards

[harness.executors]
aloud = third_party.executor:aloud
"""

DATA = """
from harness.datasets.adapter import Variant, by_name
from harness.schema import Ability


class Colours:
    version = 1

    def variants(self):
        return [Variant("", "three colours", "CC0", needs_source=True, k=3)]

    def variant(self, name):
        return by_name(self.variants(), name)

    def find_files(self, source, variant, config):
        return {"colours.txt": source / "colours.txt"}

    def convert(self, raw, config, out):
        names = raw.files["colours.txt"].read_text().split()
        rows = [out.document(name, f"the colour {name}") for name in names]
        out.haystack("all", rows)
        for name, row in zip(names, rows):
            out.query(f"q-{name}", f"which is {name}", "all", ability=Ability.LOOKUP)
            out.qrel(f"q-{name}", row)
"""

RETRIEVER = '''
class Backwards:
    """Ranks by the words that a document shares with the question, and the last one first."""

    def index(self, corpus):
        self.texts = [document.text for document in corpus]

    def search(self, queries, k):
        return [self._ranked(query.text.split())[:k] for query in queries]

    def _ranked(self, words):
        shared = [len(set(words) & set(text.split())) for text in self.texts]
        return [(at, shared[at]) for at in sorted(range(len(shared)), key=lambda at: -shared[at])]
'''

EXECUTOR = """
import sys
from contextlib import contextmanager

from harness.datasets.remote_store import DatasetLocation
from harness.runs.executors import Execution


class Aloud:
    def map(self, worker, items):
        for item in items:
            print(f"item {item.number}", file=sys.stderr)
            yield from worker(item)
        worker.close()


@contextmanager
def aloud(request):
    location = DatasetLocation.of(request.dataset)
    yield Execution(Aloud(), request.builds, location)
"""

MODULES = {"data": DATA, "retriever": RETRIEVER, "executor": EXECUTOR}

Harness = Callable[..., "subprocess.CompletedProcess[str]"]


def install(folder: Path) -> None:
    """Install the package into a folder, as pip leaves it."""
    package, info = folder / "third_party", folder / "third_party-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    for name, code in {"__init__": "", **MODULES}.items():
        (package / f"{name}.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third_party\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("third_party\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


@pytest.fixture
def harness_with_package(home: Path, tmp_path: Path) -> Harness:
    """Return what runs a command of the harness where the package is installed."""
    install(tmp_path / "site")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "colours.txt").write_text("red green blue\n")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_it_adds_a_dataset(harness_with_package: Harness) -> None:
    said = harness_with_package(
        *("run", "--dataset", "colours", "--source", "raw", "--retriever", "bm25", "--json")
    )
    assert said.returncode == 0, said.stderr
    assert orjson.loads(said.stdout)["run"]["dataset"]["name"] == "colours"


def test_it_adds_a_retriever(harness_with_package: Harness, tmp_path: Path) -> None:
    said = harness_with_package(
        *("run", "--dataset", "colours", "--source", "raw", "--retriever", "backwards", "--quiet")
    )
    assert said.returncode == 0, said.stderr
    (folder,) = (tmp_path / "results").iterdir()
    retriever = orjson.loads((folder / "run.json").read_bytes())["retriever"]
    assert (retriever["name"], retriever["version"]) == ("backwards", "1.0")


def test_it_adds_an_executor(harness_with_package: Harness) -> None:
    run = ("run", "--dataset", "colours", "--source", "raw", "--retriever", "bm25", "--quiet")
    said = harness_with_package(*run, "--backend", "aloud")
    assert (said.returncode, said.stderr) == (0, "item 0\n")
    said = harness_with_package(*run, "--backend", "alout")
    assert said.stderr == ("harness: --backend must be aloud or processes or ray, not 'alout'\n")
