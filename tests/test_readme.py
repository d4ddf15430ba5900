"""The README's promises: its code runs as printed, and CI runs its very test command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

README = (ROOT / "README.md").read_text()


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = next(block for block in code_blocks("sh") if "pytest" in block).strip()
    assert command in (ROOT / ".ci" / "run").read_text()


@pytest.mark.usefixtures("home")
def test_the_retriever_in_ten_lines_runs_from_the_command_line_and_from_python(
    tmp_path: Path,
) -> None:
    mine, from_python, evaluation, *_ = code_blocks("python")
    (tmp_path / "mine.py").write_text(mine)
    command = next(block for block in code_blocks("sh") if "mine.py:Mine" in block).split()
    assert command[0] == "harness"
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "knowledge-update" in done.stdout
    (tmp_path / "use.py").write_text(f"from mine import Mine\n{from_python}\n{evaluation}")
    done = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "'signature': 'recall@10|protocol:memory/1" in done.stdout


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("name", "command", "said"),
    [
        ("test_memory.py", ("pytest", "-q"), "recall@2 1.0000"),
        ("two_systems.py", (), "No difference is shown yet"),
        ("Monitor(window", (), ""),
    ],
)
def test_the_code_of_the_sections_on_practice_runs_as_printed(
    tmp_path: Path, name: str, command: tuple[str, ...], said: str
) -> None:
    code = next(block for block in code_blocks("python") if name in block)
    file = tmp_path / (name if name.endswith(".py") else "example.py")
    file.write_text(code)
    module = ["-m", *command] if command else []
    done = subprocess.run(
        [sys.executable, *module, file.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout


def test_every_file_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, harness, harness.cli; harness.cli.parser();"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'torch', 'datasets', 'ir_datasets', 'tqdm'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
