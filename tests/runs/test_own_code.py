"""Code that is edited between a kill and a resume is another system, wherever it stands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from polling import HANGS, wait_until

from harness.datasets.registry import open_dataset
from harness.errors import RunError
from harness.extensions.sandbox.isolated import Isolated
from harness.io.files import read_json
from harness.retrievers.command import Command
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.sources import digests, module_files, revision, sources
from harness.runs.provenance import file_digests
from harness.runs.run import run
from harness.runs.settings import Settings


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code that imports in every way."""
    monkeypatch.chdir(tmp_path)
    files = {
        "sources_mine.py": "import json, sources_near\nfrom sources_far.deep import thing\n",
        "sources_near.py": "def late():\n    import sources_late\n    import numpy\n",
        "sources_late.py": "import importlib\nimportlib.import_module('sources_named')\n",
        "sources_named.py": "import sources_near  # in a circle\n",
        "sources_far/__init__.py": "",
        "sources_far/deep/__init__.py": "from . import thing\nfrom ..other import *\n",
        "sources_far/deep/thing.py": "class T: pass\n",
        "sources_far/other.py": "import sources_bare.inside\n",
        "sources_far/unused.py": "",
        "sources_bare/inside.py": "this is no Python",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


ALL = {
    "sources_mine.py",
    "sources_near.py",
    "sources_late.py",
    "sources_named.py",
    "sources_far/__init__.py",
    "sources_far/deep/__init__.py",
    "sources_far/deep/thing.py",
    "sources_far/other.py",
    "sources_bare/inside.py",
}


def test_what_is_imported_anywhere_is_found_and_what_is_installed_is_not(place: Path) -> None:
    found = {path.relative_to(place).as_posix() for path in sources([place / "sources_mine.py"])}
    assert found == ALL
    assert [path.name for path in module_files("sources_far.deep.thing")] == [
        "__init__.py",
        "__init__.py",
        "thing.py",
    ]
    assert module_files("http") == module_files("harness.runs") == module_files("numpy") == []


def test_each_is_called_by_what_tells_it_from_the_others(place: Path) -> None:
    named = digests([place / "sources_mine.py"])
    assert len(named) == len(ALL)
    assert {"sources_mine.py", "thing.py", "deep/__init__.py", "sources_far/__init__.py"} <= set(
        named
    )


@pytest.mark.parametrize("name", ["sources_late.py", "sources_far/other.py"])
@pytest.mark.parametrize("by", ["sources_mine.py:T", "sources_mine:T"])
def test_an_edit_of_a_helper_makes_another_system(by: str, name: str, place: Path) -> None:
    before = file_digests(RetrieverSpec(by))
    assert len(before) == len(ALL)
    (place / name).write_text((place / name).read_text() + "\n# edited\n")
    changed = {
        one for one, value in file_digests(RetrieverSpec(by)).items() if before[one] != value
    }
    assert changed == {Path(name).name}


SLOW = """
import time
from pathlib import Path
from sources_helper import ranked

class Slow:
    def index(self, corpus):
        self.n = len(corpus)
    def search(self, queries, k):
        with open("asked", "a") as log:
            log.write("x" * len(queries))
        if Path("wait").exists() and Path("asked").stat().st_size > 40:
            Path("waiting").touch()
            time.sleep(3600)
        return [ranked(self.n, k) for _ in queries]
"""
HELPER = "def ranked(n, k):\n    return list(range(min(n, k)))\n"


@pytest.mark.slow
@pytest.mark.parametrize("edited", [True, False])
def test_a_killed_run_is_not_gone_on_with_by_other_code(
    edited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "sources_helper.py").write_text(HELPER)
    (tmp_path / "wait").touch()
    words = ("run", "--dataset", "sample", "--retriever", "slow.py:Slow", "--resume")
    command = [sys.executable, "-m", "harness", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((tmp_path / "waiting").exists, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(HANGS)
    (tmp_path / "wait").unlink()
    if edited:
        (tmp_path / "sources_helper.py").write_text(HELPER.replace("range(", "range(1, "))
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    (folder,) = (tmp_path / "results").glob("[!.]*")
    resumed = read_json(folder / "run.json").get("resumed_queries", 0)
    assert (resumed == 0) == edited
    assert ("of other code: sources_helper.py" in told.stderr) == edited


def test_imports_by_another_name_and_of_all_of_a_package_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "other_mine.py": "from other_few import *\nfrom other_all import *\n"
        "from importlib import import_module as load\nload('other_loaded')\n"
        "import importlib as i\ni.import_module(name='other_named')\n"
        "get = __import__\nget('other_got')\n",
        "other_few/__init__.py": "__all__ = ['told']\n",
        "other_few/told.py": "",
        "other_few/untold.py": "",
        "other_all/__init__.py": "",
        "other_all/any.py": "",
        "other_loaded.py": "",
        "other_named.py": "",
        "other_got.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {
        path.relative_to(tmp_path).as_posix() for path in sources([tmp_path / "other_mine.py"])
    }
    assert found == {*files} - {"other_few/untold.py"}


@pytest.mark.parametrize(
    "run",
    [
        "{python} server.py",
        "{python} -m served.main",
        "{python} elsewhere.py server.py:Mine",
        "{python} elsewhere.py --app=server.py:Mine",
        "env serve served.main:app",
        "sh -c '{python} elsewhere.py server.py:Mine'",
    ],
)
def test_what_a_command_imports_is_part_of_what_it_is(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "served").mkdir()
    for name in ("server.py", "served/main.py"):
        (tmp_path / name).write_text("import served_order")
    order = tmp_path / "served_order.py"
    order.write_text("ORDER = 1")
    command = Command(run.format(python=sys.executable))
    order.write_text("ORDER = -1")
    assert Command(run.format(python=sys.executable)).revision != command.revision
    with pytest.raises(RunError, match="was changed since this run began"):
        command.has_index("key", None)  # type: ignore[arg-type]  # it comes to none


def test_a_file_of_data_that_an_option_names_is_no_part_of_what_a_command_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for name in ("server.py", "mem.db", "mem.db", "own.toml"):
        (tmp_path / name).write_bytes(f"# {len(found)}".encode())
        found.append(revision(["python", "server.py", "--db=mem.db", "--config=own.toml"]))
    assert found[0] == found[1] == found[2] != found[3]


SLOWLY = """
import time
from isolated_order import ORDER
class System:
    def index(self, corpus):
        self.ids = [document.id for document in corpus][::ORDER]
    def search(self, queries, k):
        time.sleep(0.02)
        return [self.ids[:k] for _ in queries]
"""


@pytest.mark.slow
def test_code_that_is_edited_while_an_isolated_run_goes_on_ends_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "isolated_mine.py").write_text(SLOWLY)
    order = tmp_path / "isolated_order.py"
    order.write_text("ORDER = 1")
    dataset = open_dataset("sample")
    began = Isolated.search

    def edited(self: Isolated, *given: Any) -> Any:
        order.write_text("ORDER = -1")
        return began(self, *given)

    monkeypatch.setattr(Isolated, "search", edited)
    with pytest.raises(RunError, match=r"isolated_order\.py changed since this run began"):
        run(dataset, "isolated_mine.py:System", Settings(k=5, isolate=True), out=tmp_path / "out")
