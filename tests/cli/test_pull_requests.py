"""Submissions as pull requests: the commands of the example's workflow on git repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import orjson
import pytest
import yaml
from file_server import fetch, served

from harness.__main__ import main
from tests.places import ROOT

pytestmark = pytest.mark.extensions

WORKFLOW = ROOT / "examples" / "ci" / "leaderboard-workflow.yml"
Harness = Callable[..., Any]
Change = Callable[[Path, Path], None]
"""What a pull request changes: a checkout, with a run that it can take rankings from."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs, by their systems."""
    out = tmp_path_factory.mktemp("runs")
    for system in ("bm25", "tfidf"):
        told = ["run", "--dataset", "sample", "--quiet", "--out", str(out), "--retriever"]
        assert main([*told, system]) == 0
    return {path.name.split("-")[2]: path for path in out.iterdir()}


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def submit(checkout: Path, run: Path, name: str, system: str | None = None) -> Path:
    """A submission as the docs show one: rankings, and a card of a few lines."""
    folder = checkout / "submissions" / name
    folder.mkdir(parents=True)
    shutil.copy(run / "rankings.trec", folder)
    fingerprint = orjson.loads((run / "run.json").read_bytes())["dataset"]["fingerprint"]
    card = {"system": system or name, "dataset": "sample", "k": 100, "submitted_by": name}
    (folder / "run.json").write_bytes(orjson.dumps(card | {"fingerprint": fingerprint}))
    return folder


def claim(folder: Path, run: Path) -> None:
    """Claim another recall than the run's."""
    scores = orjson.loads((run / "scores.json").read_bytes())
    protocol = scores["protocols"][0]
    protocol["slices"]["all"]["value"][protocol["metrics"].index("recall@10")] = 0.99
    (folder / "scores.json").write_bytes(orjson.dumps(scores))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, runs: dict[str, Path]) -> Path:
    """A bare repository with one accepted submission."""
    folder = tmp_path_factory.mktemp("git")
    git(folder, "init", "-q", "--bare", "-b", "main", "origin.git")
    git(folder, "clone", "-q", "origin.git", "ours")
    git(folder / "ours", "checkout", "-q", "-b", "main")
    submit(folder / "ours", runs["bm25"], "first")
    git(folder / "ours", "add", "-A")
    git(folder / "ours", "commit", "-q", "-m", "The first")
    git(folder / "ours", "push", "-q", "origin", "main")
    return folder / "origin.git"


def request(origin: Path, tmp_path: Path, change: Change, run: Path) -> Path:
    """A pull request from a clone of its own, and the checkout that its check is given.

    That is what would stand on the main branch: the two of them, merged.
    """
    theirs = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", str(origin), str(theirs))
    git(theirs, "checkout", "-q", "-b", "request")
    change(theirs, run)
    git(theirs, "add", "-A")
    git(theirs, "commit", "-q", "-m", "A submission")
    checkout = tmp_path / "checkout"
    git(tmp_path, "clone", "-q", str(origin), str(checkout))
    git(checkout, "fetch", "-q", str(theirs), "request")
    git(checkout, "merge", "-q", "--no-ff", "-m", "As it would be", "FETCH_HEAD")
    return checkout


def work(checkout: Path) -> tuple[int, str]:
    """What the workflow's own steps say there, run as a runner does: the last status, the errors.

    Of the package all but its installation: it is installed.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["check"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert [command.split()[0] for command in commands] == ["pip", "harness", "harness"]
    errors = ""
    for command in commands[1:]:
        told = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            **{"cwd": checkout, "env": {**os.environ, "PATH": path}},
            **{"capture_output": True, "text": True, "check": False},
        )
        errors += told.stderr
        if told.returncode:
            return told.returncode, errors
    return 0, errors


@pytest.mark.slow
def test_a_good_submission_passes_and_stands_on_the_published_board_after_the_merge(
    origin: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    def good(checkout: Path, run: Path) -> None:
        submit(checkout, run, "good")
        # What a pull request brings along is never run, be it asked for by a file of settings.
        (checkout / "harness.toml").write_text('plugins = ["code.py"]')
        (checkout / "code.py").write_text("open('it-ran', 'w')")

    ours = tmp_path / "ours.git"
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(ours))
    checkout = request(ours, tmp_path, good, runs["tfidf"])
    status, said = work(checkout)
    assert (status, said.count("scored from its rankings")) == (0, 2)
    assert not list(tmp_path.rglob("it-ran"))

    git(checkout, "push", "-q", "origin", "HEAD:main")  # the merge
    merged = tmp_path / "merged"
    git(tmp_path, "clone", "-q", str(ours), str(merged))
    assert work(merged)[0] == 0
    with served(merged / "site") as address:
        (board,) = orjson.loads(fetch(urljoin(address, "leaderboard.json")))["boards"]
        assert {entry["system"] for entry in board["entries"]} == {"first", "good"}
        part = orjson.loads(fetch(urljoin(address, f"parts/board-{board['id']}.json")))
        assert {entry["submitted_by"] for entry in part["entries"]} == {"first", "good"}
        assert b"Leaderboard" in fetch(address)


def wrong(checkout: Path, run: Path) -> None:
    claim(submit(checkout, run, "wrong"), run)


def unknown(checkout: Path, run: Path) -> None:
    path = submit(checkout, run, "unknown") / "rankings.trec"
    path.write_text(path.read_text() + "nobody-01 Q0 s01_1 1 1.0 x\n")


def again(checkout: Path, run: Path) -> None:
    rankings = checkout / "submissions" / "first" / "rankings.trec"
    shutil.copy(rankings, submit(checkout, run, "zeroth", "first"))


def card(checkout: Path, run: Path) -> None:
    path = submit(checkout, run, "card") / "run.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"submitted_by": ["a", "b"]}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (wrong, "submissions/wrong/scores.json: claims recall@10 0.990000"),
        (unknown, "1 query that sample does not have"),
        (again, "submissions/zeroth: repeats the run submissions/first"),
        (card, "submissions/card/run.json: submitted_by: expected str, got list"),
    ],
)
def test_a_bad_submission_is_refused_with_a_line_and_the_board_stays(
    origin: Path, runs: dict[str, Path], tmp_path: Path, change: Change, why: str
) -> None:
    checkout = request(origin, tmp_path, change, runs["tfidf"])
    board = checkout / "board"
    told = ["leaderboard", "add", str(checkout / "submissions" / "first"), "--quiet"]
    assert main([*told, "--results", str(board)]) == 0
    before = {path: path.read_bytes() for path in board.rglob("leaderboard*") if path.is_file()}
    (accepted,) = board.glob("sample-turn-first-*")
    status, said = work(checkout)
    assert status == 2
    assert said.splitlines()[-1].startswith("harness: ")
    assert why in said.splitlines()[-1]
    assert {path: path.read_bytes() for path in before} == before
    assert [path for path in board.iterdir() if path.is_dir() and "first" in path.name] == [
        accepted
    ]
    assert orjson.loads((accepted / "run.json").read_bytes())["submitted_by"] == "first"
    assert not (checkout / "site").exists()


@pytest.mark.slow
def test_a_refused_submission_leaves_the_accepted_one_of_the_same_rankings(
    harness: Harness, runs: dict[str, Path], tmp_path: Path
) -> None:
    board = tmp_path / "board"
    theirs = submit(tmp_path, runs["bm25"], "theirs")
    assert harness("leaderboard", "add", theirs, "--results", board).status == 0
    (accepted,) = board.glob("sample-*")
    before = {path.name: path.read_bytes() for path in accepted.iterdir()}
    claim(theirs, runs["bm25"])
    assert harness("leaderboard", "add", theirs, "--results", board).status == 2
    assert {path.name: path.read_bytes() for path in accepted.iterdir()} == before
    assert [path.name for path in board.iterdir() if path.name.startswith(".")] == []
