"""Starting up: what is imported, what is printed, and the names that a program imports."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli.parser import build_parser

HEAVY = ("numpy", "pyarrow", "pandas", "torch", "datasets", "ir_datasets", "scipy", "beir")


def _imported(*arguments: str) -> set[str]:
    """Heavy packages that a command has imported when it ends."""
    code = (
        "import sys\nfrom harness.__main__ import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        f"print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout
    return set(done.stderr.split())


def test_help_imports_nothing_heavy() -> None:
    assert _imported("--help") == set()
    assert _imported("run", "--help") == set()


def test_listing_imports_no_data_package() -> None:
    assert _imported("datasets", "--json") <= {"numpy", "pyarrow"}
    assert _imported("retrievers", "--json") <= {"numpy", "pyarrow"}


def test_a_reader_that_stops_reading_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m harness datasets | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["| true; echo ${PIPESTATUS[0]}", ">&-; echo $?", "<&- >&- 2>&-; echo $?"]
)
@pytest.mark.parametrize(("least", "status"), [(0.0, "0"), (1.0, "1")])
def test_a_gate_ends_as_it_stands_where_nobody_reads_it(
    least: float, status: str, way: str, sample_run: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "gate.toml").write_text(f'[[at_least]]\nmetric = "recall@10"\nvalue = {least}\n')
    gate = f"{sys.executable} -m harness gate {sample_run('bm25')} --config gate.toml"
    done = subprocess.run(
        ["bash", "-c", f"{gate} {way}"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (status, "")


@pytest.mark.parametrize(
    "verb", ["run", "score", "datasets", "retrievers", "leaderboard", "explain"]
)
def test_every_command_has_help(harness: Callable[..., Any], verb: str) -> None:
    said = harness(verb, "--help")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith(f"usage: harness {verb}")


def test_a_command_is_parsed_alone_as_it_is_among_all() -> None:
    def below(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
        (found,) = (a.choices for a in top._actions if a.choices)
        return dict(found)  # type: ignore[arg-type]

    for name, one in below(build_parser(load_all=True)).items():
        alone = below(build_parser(name))
        assert list(alone) == [name]
        assert alone[name].format_help() == one.format_help()


@pytest.mark.parametrize(
    "code",
    [
        "from harness import Settings, run",
        "import harness; harness.Settings; run = harness.run",
        "import harness; harness.score_run; run = harness.run",
        "from harness import run, Settings, open_dataset, score",
    ],
)
def test_run_is_a_function_whatever_was_imported_before(code: str) -> None:
    subprocess.run([sys.executable, "-c", f"{code}\nassert run.__name__ == 'run'"], check=True)


@pytest.mark.extensions
def test_importing_the_package_imports_nothing_heavy_and_every_public_name_is_there() -> None:
    code = (
        "import sys, harness\n"
        f"assert not [name for name in {HEAVY} if name in sys.modules]\n"
        "for name in harness.__all__:\n    assert callable(getattr(harness, name)), name\n"
        "assert not [n for n in ('pandas', 'torch', 'datasets', 'ir_datasets') if n in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
