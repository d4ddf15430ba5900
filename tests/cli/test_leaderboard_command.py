"""`harness leaderboard`: one row a run, the same bytes from the same folders."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from harness.__main__ import main
from harness.dataset.reader import Dataset
from harness.verdicts.board.leaderboard import SCHEMA

SAMPLE = ("run", "--dataset", "sample", "--quiet", "--retriever")


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("three") / "results"
    for retriever in ("bm25", "random", "oracle"):
        assert main([*SAMPLE, retriever, "--out", str(out)]) == 0
    return out


@pytest.fixture
def results(three_runs: Path, tmp_path: Path) -> Path:
    """Three scored runs of the sample, in the working folder."""
    shutil.copytree(three_runs, tmp_path / "results")
    return tmp_path / "results"


def test_the_leaderboard_has_a_row_a_run_and_is_the_same_when_built_again(
    harness: Callable[..., Any], results: Path, sample: Dataset
) -> None:
    said = harness("leaderboard")
    assert (said.status, said.err) == (0, "")
    first = (results / "leaderboard.json").read_bytes()
    assert harness("leaderboard", "--quiet").out == ""
    assert (results / "leaderboard.json").read_bytes() == first
    built = orjson.loads(first)
    Draft202012Validator(orjson.loads(SCHEMA.read_bytes())).validate(built)
    (board,) = built["boards"]
    assert [entry["system"] for entry in board["entries"]] == ["bm25", "oracle", "random"]
    assert [entry["sees_answer_key"] for entry in board["entries"]] == [False, True, False]
    for entry in board["entries"]:
        memory = next(p for p in entry["protocols"] if p["protocol"] == "memory/1")
        cell = memory["slices"]["temporal"]["recall@10"]
        assert cell["n"] == (sample.abilities == "temporal").sum()
        assert cell["interval"]["low"] <= cell["value"] <= cell["interval"]["high"]
        # Who was shown the key is no competitor.
        assert ("rank" in cell) == (entry["system"] != "oracle")
        words = shlex.split(entry["repeat"])
        assert words[:2] == ["harness", "run"]
        assert main([*words[1:], "--quiet"]) == 0  # the very command, into the same folder
    assert harness("leaderboard", "--quiet").status == 0
    # Best first, the key's holder above all.
    lines = said.out.splitlines()
    shown = [line.split()[1] for line in lines if len(line.split()) > 6][1:]
    assert [name for name in shown if name in ("bm25", "oracle", "random")] == [
        "oracle",
        "bm25",
        "random",
    ]
    assert "3 runs on 1 board in results/leaderboard.json" in lines[-1]


def test_the_board_goes_where_it_is_told(harness: Callable[..., Any], results: Path) -> None:
    said = harness("leaderboard", "--results", results, "--out", "board/all.json", "--json")
    assert said.status == 0
    told = orjson.loads(said.out)["leaderboard"]
    assert told == orjson.loads(Path("board/all.json").read_bytes())
    assert harness("leaderboard", "--out", "board").err == (
        "harness: --out board: is a folder; name a file\n"
    )
    (results / "in-the-way").write_text("a file")
    said = harness("leaderboard", "--out", "results/in-the-way/board.json")
    assert said.status == 2
    assert "cannot be written" in said.err
    assert said.err.count("\n") == 1


def test_folders_without_scores_and_unfinished_ones_are_left_out(
    harness: Callable[..., Any], results: Path
) -> None:
    folder = next(results.glob("*bm25*"))
    (folder / "scores.json").unlink()
    copy = results / f".{folder.name}.0a1b2c3d.old"
    copy.mkdir()
    for name in ("run.json", "queries.parquet"):
        (copy / name).write_bytes((folder / name).read_bytes())
    (copy / "scores.json").write_text("{}")
    (results / "notes").mkdir()
    said = harness("leaderboard")
    assert said.status == 0
    assert f"note: 1 run without scores left out: {folder.name}" in said.err
    board = orjson.loads((results / "leaderboard.json").read_bytes())
    assert [one["system"] for one in board["boards"][0]["entries"]] == ["oracle", "random"]
    assert harness("score", folder, "--quiet").status == 0
    assert harness("leaderboard").err == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("scores.json", b"{", "scores.json: not valid JSON"),
        ("scores.json", b"{}", "is not of this version of the harness"),
        ("scores.json", b"[]", "is not of this version of the harness"),
        ("run.json", b"", "run.json: not valid JSON"),
        ("run.json", b'{"run_version": 99}', "not a run folder of this version"),
        ("run.json", b'{"run_version": 1}', "is not of this version of the harness"),
        ("run.json", b"[]", "not a run folder of this version"),
    ],
)
def test_a_broken_folder_is_named_and_the_old_board_stays(
    harness: Callable[..., Any], results: Path, name: str, content: bytes, said: str
) -> None:
    assert harness("leaderboard", "--quiet").status == 0
    before = (results / "leaderboard.json").read_bytes()
    folder = next(results.glob("*random*"))
    (folder / name).write_bytes(content)
    told = harness("leaderboard")
    assert told.status == 2
    assert folder.name in told.err
    assert said in told.err
    assert told.err.count("\n") == 1
    assert (results / "leaderboard.json").read_bytes() == before


def test_a_board_of_nothing_is_an_error(harness: Callable[..., Any], tmp_path: Path) -> None:
    said = harness("leaderboard")
    assert (said.status, said.err) == (
        2,
        "harness: results: no such folder; name the one with the runs with --results\n",
    )
    (tmp_path / "results").mkdir()
    said = harness("leaderboard")
    assert said.status == 2
    assert "holds no scored run" in said.err
    assert list((tmp_path / "results").iterdir()) == []
