"""A command in an environment that was made and filled as its user would. Run with -m packaging."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tabulate
from environments import TOP, succeeded

pytestmark = pytest.mark.packaging

MINE = """
import tabulate

class Mine:
    def index(self, corpus):
        self.handles = corpus.handles

    def search(self, queries, k):
        assert tabulate.__version__ == "0.8.10"
        return [self.handles[:k] for _ in queries]
"""


def test_a_package_of_another_version_is_installed_there_and_used(tmp_path: Path) -> None:
    assert tabulate.__version__ != "0.8.10"
    succeeded(sys.executable, "-m", "venv", "theirs", cwd=tmp_path)
    succeeded("theirs/bin/pip", "install", "-q", "tabulate==0.8.10", cwd=tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    program = f"run=python {TOP / 'examples' / 'serve_class.py'} mine.py:Mine"
    params = ("--param", "venv=theirs", "--param", program)
    command = ("-m", "harness", "run", "--dataset", "sample", "--retriever", "command", *params)
    printed = succeeded(sys.executable, *command, cwd=tmp_path, HARNESS_HOME=str(tmp_path / "home"))
    assert "queries=321  failed=0" in printed
