"""The README's promises; that its code runs as printed is held with the documentation's."""

from __future__ import annotations

import re
import subprocess
import sys

from places import ROOT
from polling import HANGS

README = (ROOT / "README.md").read_text()


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = next(block for block in code_blocks("sh") if "pytest" in block).strip()
    assert command in (ROOT / ".ci" / "run").read_text()


def test_the_readme_stays_short() -> None:
    assert len(README.splitlines()) <= 150


def test_every_file_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, harness.cli.parser as cli; cli.build_parser(load_all=True);"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'torch', 'datasets', 'ir_datasets', 'tqdm'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
