"""A package of somebody else adds a command, as an installation leaves it on the path."""

from __future__ import annotations

import base64
import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import orjson
import pytest

COMMAND = '''
    """Count the documents of a run.

    Say how many documents lie in a run folder, 100% of them.
    """


    def add_arguments(parser):
        parser.add_argument("run", help="a run folder")
        parser.add_argument("--double", action="store_true")


    def main(args):
        print(f"{args.run}: {2 if args.double else 1}")
        return 3
'''


SECTION = """
    from harness.reports.records import ReportSection


    def section(report):
        (folder,) = report.folders
        if report.share:
            return None
        files = sorted(path.name for path in folder.iterdir())
        return ReportSection(
            title="Files of the run",
            text=[f"{report.dataset.name} was asked {len(report.asked)} queries."],
            columns=["file", "letters"],
            rows=[[name, len(name)] for name in files],
        )


    def broken(report):
        raise KeyError("none")
"""


def _install(
    folder: Path,
    package: str,
    entries: dict[str, str],
    group: str = "harness.commands",
    **modules: str,
) -> None:
    """Lay out a package the way pip does: its modules, and its entry points beside them."""
    info = folder / f"{package}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    home = folder / package
    home.mkdir()
    (home / "__init__.py").write_text("import sys\nsys.stderr.write('package imported\\n')\n")
    for name, source in modules.items():
        (home / f"{name}.py").write_text(dedent(source).strip() + "\n")


def _harness(folder: Path, *arguments: str) -> tuple[int, str, str]:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    return done.returncode, done.stdout, done.stderr


def test_an_installed_package_adds_a_command(tmp_path: Path) -> None:
    _install(tmp_path, "acme", {"count": "acme.counting"}, counting=COMMAND)

    status, out, err = _harness(tmp_path, "--help")
    assert (status, err) == (0, "")  # its help is read, and nothing of it imported
    assert re.search(r"\n    count +count the documents of a run\n", out)

    status, out, _ = _harness(tmp_path, "count", "--help")
    assert status == 0
    assert "Say how many documents lie in a run folder, 100% of them." in out
    assert "--double" in out

    assert _harness(tmp_path, "count", "mine", "--double") == (3, "mine: 2\n", "package imported\n")
    status, _, err = _harness(tmp_path, "count")
    assert status == 2
    assert "harness count: the following arguments are required: run" in err


def test_a_command_that_breaks_names_its_package(tmp_path: Path) -> None:
    _install(
        tmp_path,
        "acme",
        {"broken": "acme.broken", "gone": "acme.gone", "empty": "acme.empty"},
        broken='"""Break."""\nraise ValueError("two\\nlines")',
        empty="",
    )
    status, _, err = _harness(tmp_path, "broken")
    assert status == 2
    (line,) = err.splitlines()[1:]
    assert line.startswith(
        "harness: command 'broken' of the package acme 1.2: acme.broken: ValueError: two lines"
    )
    assert "acme 1.2: acme.gone: ModuleNotFoundError" in _harness(tmp_path, "gone")[2]
    assert "acme 1.2: acme.empty has no add_arguments" in _harness(tmp_path, "empty")[2]
    status, out, err = _harness(tmp_path, "--help")
    assert (status, err) == (0, "")
    assert re.search(r"\n    broken +break\n", out)
    assert _harness(tmp_path, "retrievers", "--quiet") == (0, "", "")


def test_two_packages_with_one_command_are_both_named(tmp_path: Path) -> None:
    _install(tmp_path, "acme", {"count": "acme.counting"}, counting=COMMAND)
    _install(tmp_path, "other", {"count": "other.counting", "runs": "other.counting"})
    status, _, err = _harness(tmp_path, "count", "mine")
    assert status == 2
    assert "command 'count': two packages declare it, " in err
    assert "acme 1.2" in err
    assert "other 1.2" in err
    assert _harness(tmp_path, "runs", "--quiet")[0] == 0, "ours are used, whoever declares the name"
    assert "two packages declare it" in _harness(tmp_path, "--help")[1].replace("\n", " ")
    assert _harness(tmp_path, "retrievers", "--quiet") == (0, "", "")


def _page_data(page: Path) -> Any:
    found = re.search(
        r'<script type="application/gzip" id="data">([^<]*)</script>', page.read_text()
    )
    assert found
    return orjson.loads(gzip.decompress(base64.b64decode(found[1])))


@pytest.mark.slow
def test_an_installed_package_adds_a_section_to_the_report(
    tmp_path: Path, sample_run: Callable[..., Path]
) -> None:
    run, group = sample_run("bm25"), "harness.report_sections"
    _install(tmp_path, "acme", {"files": "acme.sections:section"}, group, sections=SECTION)
    page = tmp_path / "report.html"
    status, _, err = _harness(tmp_path, "report", str(run), "--out", str(page), "--quiet")
    assert (status, err) == (0, "package imported\n")
    (section,) = _page_data(page)["sections"]
    assert (section["name"], section["title"]) == ("files", "Files of the run")
    assert section["text"] == ["sample was asked 321 queries."]
    assert ["run.json", 8] in section["rows"]

    more = ["--out", str(page), "--quiet", "--share"]
    assert _harness(tmp_path, "report", str(run), *more)[0] == 0
    assert _page_data(page)["sections"] == []

    _install(tmp_path, "other", {"worse": "other.sections:broken"}, group, sections=SECTION)
    status, _, err = _harness(tmp_path, "report", str(run), "--out", str(page), "--quiet")
    assert status == 2
    assert "report section 'worse' of the package other 1.2: KeyError: 'none'" in err
