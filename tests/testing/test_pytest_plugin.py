"""The plug-in in somebody's test suite: a real pytest in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from polling import HANGS

TESTS = """
from harness.testing import evaluate

NOTES = {"n1": "Ada moved to Lisbon", "n2": "her cat is Rook", "n3": "Ben plays the oboe"}
CASES = [("where did Ada move", {"n1"}), ("what is her cat", {"n2"}), ("who plays", {"n3"})]


def search(query, k):
    asked = set(query.lower().split())
    shared = {i: len(asked & set(text.lower().split())) for i, text in NOTES.items()}
    return sorted(shared, key=lambda i: -shared[i])[:k]


def test_green(assert_quality):
    assert_quality(evaluate(search, CASES, k=2), recall_at_2=0.9, mrr=0.9)


def test_red(assert_quality):
    assert_quality(evaluate(search, CASES, k=2), precision_at_2=0.9)


def test_wrong(assert_quality):
    assert_quality(evaluate(search, CASES), recal_at_10=0.9)


def test_of_something_else():
    pass
"""


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANGS)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("-n", "1")])
def test_what_was_measured_is_listed_and_failures_say_why(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    done = call(tmp_path, "--junitxml", "junit.xml", *processes)
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stdout
    assert "3 failed, 1 passed" not in said
    assert "2 failed, 2 passed" in said
    section = said.partition("retrieval quality ==")[2].partition("short test summary")[0]
    assert "test_mine.py::test_green\n  pass         recall@2 1.0000 >= 0.9000, 95% " in section
    assert "\n  pass         mrr 1.0000 >= 0.9000" in section
    assert "test_mine.py::test_red\n  FAIL         precision@2 0.5000 < 0.9000" in section
    assert "of_something_else" not in section
    assert "no ranking reaches it: with these relevant ids the best is 0.5000" in said
    assert "UsageError: unknown metric 'recal_at_10'; did you mean recall_at_10" in said
    assert "harness/testing" not in said  # a traceback ends in the user's own line
    cases = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    }
    assert cases["test_green"]["quality.recall@2"] == "1.0"
    assert cases["test_green"]["quality.recall@2.threshold"] == ">= 0.9"
    assert cases["test_red"]["quality.precision@2"] == "0.5"
    assert cases["test_red"]["quality.precision@2.n"] == "3"
    assert not cases["test_of_something_else"]


@pytest.mark.slow
def test_the_plain_function_is_listed_too_and_quiet_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "from harness.testing import assert_quality, evaluate\n"
        "def test_it():\n"
        "    assert_quality(evaluate(lambda q: ['d'], [('q', {'d'})]), recall_at_10=1)\n"
    )
    done = call(tmp_path, "test_plain.py")
    assert done.returncode == 0
    assert "pass         recall@10 1.0000 >= 1.0000" in done.stdout
    assert "retrieval quality" not in call(tmp_path, "-qq", "test_plain.py").stdout


def test_starting_pytest_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_start.py").write_text(
        "import sys\n"
        "def test_start(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('harness-quality')\n"
        "    assert not {'numpy', 'pyarrow', 'orjson'} & set(sys.modules)\n"
        "    assert {n for n in sys.modules if n.startswith('harness')} == {\n"
        "        'harness', 'harness.testing', 'harness.testing.plugin',\n"
        "        'harness.testing'}\n"
    )
    done = call(tmp_path, "test_start.py")
    assert done.returncode == 0, done.stdout
