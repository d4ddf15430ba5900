"""Each system of examples/systems gives the figure that stands beside its command.

Run with -m systems; needs the extra [examples] and Node.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from places import EXAMPLES

pytestmark = pytest.mark.systems


@dataclass(frozen=True)
class Row:
    """A system of the table in the README."""

    system: str
    tried_with: str
    lines: str
    command: str
    recall: str
    ndcg: str


def rows() -> list[Row]:
    page = (EXAMPLES / "systems" / "README.md").read_text().partition("\n## ")[0]
    table = [line for line in page.splitlines() if line.startswith("| ")][1:]
    return [Row(*(cell.strip(" `") for cell in line.strip("|").split("|"))) for line in table]


def file_of(row: Row) -> str:
    (name,) = re.findall(r"examples/systems/(\w+\.\w+)", row.command)
    return name


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def printed(command: str, folder: Path) -> str:
    """What a command prints, from a folder in which nothing but the examples is."""
    (folder / "examples").symlink_to(EXAMPLES)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (folder / "said").open("w+") as said, (folder / "errors").open("w+") as errors:
        shell = subprocess.Popen(
            ["bash", "-c", command.replace("8124", str(port()))],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=said,
            stderr=errors,
            start_new_session=True,
        )
        try:
            status = shell.wait(300)
        finally:
            with suppress(ProcessLookupError):  # nothing is left but of a service
                os.killpg(shell.pid, signal.SIGKILL)
        assert status == 0, (folder / "errors").read_text()
        return (folder / "said").read_text()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.system)
def test_a_system_gives_its_figures_in_as_many_lines_as_are_said(
    row: Row, tmp_path: Path, weights: None
) -> None:
    said = printed(row.command, tmp_path)
    assert "  failed=0" in said
    found = dict(re.findall(r"^(recall@10|ndcg@10) +all +261 +(\S+)", said, re.MULTILINE))
    assert found == {"recall@10": row.recall, "ndcg@10": row.ndcg}
    assert len((EXAMPLES / "systems" / file_of(row)).read_text().splitlines()) == int(row.lines)
    assert 5 <= int(row.lines) <= 40


def test_the_page_names_every_file() -> None:
    page = (EXAMPLES / "systems" / "README.md").read_text()
    there = {path.name for path in (EXAMPLES / "systems").iterdir() if path.is_file()}
    assert [name for name in there - {"README.md"} if name not in page] == []
