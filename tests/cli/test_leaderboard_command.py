"""`harness leaderboard`: one row a run, the same bytes from the same folders."""

from __future__ import annotations

import base64
import gzip
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.__main__ import main
from harness.analysis.board.leaderboard import read_boards
from harness.analysis.board.records import Board, Leaderboard, PairedTests
from harness.analysis.claims import Claim
from harness.analysis.compare.compare import compare
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import read_json, write_json
from harness.io.records import convert, to_plain
from harness.reports.board import write_board

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


@pytest.mark.slow
def test_the_leaderboard_has_a_row_a_run_and_is_the_same_when_built_again(
    harness: Callable[..., Any], results: Path, sample: Dataset
) -> None:
    said = harness("leaderboard")
    assert (said.status, said.err) == (0, "")
    first = (results / "leaderboard.json").read_bytes()
    assert harness("leaderboard", "--quiet").out == ""
    assert (results / "leaderboard.json").read_bytes() == first
    (board,) = read_boards(results / "leaderboard.json")
    assert [entry.system for entry in board.entries] == ["bm25", "oracle", "random"]
    assert [entry.sees_gold_labels for entry in board.entries] == [False, True, False]
    for entry in board.entries:
        memory = next(p for p in entry.protocols if p.protocol == "memory/1")
        cell = memory.slices["temporal"]["recall@10"]
        assert cell.n == (sample.abilities == "temporal").sum()
        assert cell.interval is not None
        assert cell.value is not None
        assert cell.interval.low <= cell.value <= cell.interval.high
        # A system that saw the gold labels is no competitor.
        assert (cell.rank is not None) == (entry.system != "oracle")
        words = shlex.split(entry.command or "")
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


@pytest.mark.slow
def test_leaderboard_json_sums_up_and_names_the_files_that_hold_the_rest(
    harness: Callable[..., Any], results: Path
) -> None:
    assert harness("leaderboard", "--quiet").status == 0
    summed = read_json(results / "leaderboard.json")
    convert(summed, Leaderboard, "the summary")
    (board,) = summed["boards"]
    whole, pairs = (read_json(results / board[name]) for name in ("file", "pairs"))
    convert(whole, Board, "the board")
    convert(pairs, PairedTests, "the pairs")
    # The same numbers, to six digits, and no more than people read.
    bm25, full = board["entries"][0], whole["entries"][0]
    cell = full["protocols"][0]["slices"]["temporal"]["recall@10"]
    assert bm25["values"]["temporal"] == {
        "recall@10": {
            "value": float(f"{cell['value']:.6g}"),
            "low": float(f"{cell['interval']['low']:.6g}"),
            "high": float(f"{cell['interval']['high']:.6g}"),
            "random_baseline": float(f"{cell['random_baseline']:.6g}"),
            **{name: cell[name] for name in ("n", "rank", "rank_note") if name in cell},
        }
    }
    assert sorted(bm25["values"]["all"]) == sorted(board["metrics"])
    assert len((results / "leaderboard.json").read_bytes()) < 2_500 * len(board["entries"])


def test_a_pair_on_a_board_is_what_harness_compare_says_of_it(
    harness: Callable[..., Any], results: Path
) -> None:
    assert harness("leaderboard", "--quiet").status == 0
    (board,) = read_json(results / "leaderboard.json")["boards"]
    pairs = read_json(results / board["pairs"])
    assert not any("oracle" in run for run in pairs["runs"]), "it saw the key"
    compared = compare([results / run for run in pairs["runs"]])
    for name in ("all", "temporal"):
        mine = pairs["results"][name]["recall@10"]
        found = compared["recall@10", name].pairs[0].found
        exactly = {
            "difference": found.difference.value,
            "low": found.difference.low,
            "high": found.difference.high,
            "p": found.test.p,
        }
        for part, value in exactly.items():
            assert mine[part] == [pytest.approx(value, abs=1e-6)]
        counts = [*mine["wins"], *mine["losses"], *mine["ties"]]
        assert counts == [found.wins, found.losses, found.ties]
    # An order is shown where the ranges of ranks are apart, and only there.
    (whole,) = read_boards(results / "leaderboard.json")
    ranks = [
        entry.protocols[0].slices["all"]["recall@10"].rank
        for entry in whole.entries
        if entry.run in pairs["runs"]
    ]
    ordered = pairs["results"]["all"]["recall@10"]["ordered"]
    assert ordered == [ranks == [(1, 1), (2, 2)]] == [True]


@pytest.mark.slow
def test_files_of_boards_that_are_gone_are_removed_and_nothing_else(
    harness: Callable[..., Any], results: Path
) -> None:
    assert main([*SAMPLE, "bm25", "--granularity", "session", "--out", str(results)]) == 0
    assert harness("leaderboard", "--quiet").status == 0
    before = {file.name for file in (results / "leaderboard-files").iterdir()}
    (results / "leaderboard-files" / "notes.json").write_text("{}")
    shutil.rmtree(next(results.glob("sample-session-*")))
    assert harness("leaderboard", "--quiet").status == 0
    after = {file.name for file in (results / "leaderboard-files").iterdir()}
    assert {name.split("-")[1] for name in before} == {"session", "turn"}
    assert after == {name for name in before if "-turn-" in name} | {"notes.json"}


def test_of_what_is_no_board_is_said_why(
    harness: Callable[..., Any], results: Path, tmp_path: Path
) -> None:
    assert harness("leaderboard", "--quiet").status == 0
    whole = read_json(results / "leaderboard.json")
    write_json(tmp_path / "new.json", whole | {"schema_version": 9})
    with pytest.raises(UsageError, match="schema_version: must be 1, not 9; `harness leaderb"):
        read_boards(tmp_path / "new.json")
    shutil.copy(results / "leaderboard.json", tmp_path)
    with pytest.raises(UsageError, match=r"is missing; leaderboard\.json is a summary"):
        read_boards(tmp_path / "leaderboard.json")
    (board,) = read_json(results / "leaderboard.json")["boards"]
    fewer = read_json(results / board["file"])
    fewer["entries"].pop()
    write_json(results / board["file"], fewer)
    with pytest.raises(UsageError, match=r"is not the board that leaderboard.json sums up"):
        read_boards(results / "leaderboard.json")


def test_claims_stand_in_the_summary_and_in_no_measured_file(results: Path) -> None:
    claim = Claim(
        id="theirs-sample",
        system="theirs",
        dataset="sample",
        granularity="turn",
        measure="R@10",
        value=0.9,
        n=470,
        protocol="any",
        comparable=False,
        reason="any for all",
        source="https://example.org/board",
        date="2026-11-21",
        reproducible=False,
    )
    out = results / "leaderboard.json"
    write_board(results, out, claims=lambda board: [claim] if board.entries else [])
    summed = read_json(out)
    convert(summed, Leaderboard, "the summary")
    (board,) = summed["boards"]
    assert board["claims"] == [to_plain(claim)]
    assert "theirs" not in (results / board["file"]).read_text()
    assert "theirs" not in [entry["system"] for entry in board["entries"]]
    assert read_boards(out)[0].claims == [claim]


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
    assert f"note: 1 run without scores excluded: {folder.name}" in said.err
    board = orjson.loads((results / "leaderboard.json").read_bytes())
    assert [one["system"] for one in board["boards"][0]["entries"]] == ["oracle", "random"]
    assert harness("score", folder, "--quiet").status == 0
    assert harness("leaderboard").err == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("scores.json", b"{", "scores.json: not valid JSON"),
        ("scores.json", b"{}", "scores.json: harness: is missing"),
        ("scores.json", b"[]", "scores.json: expected object, got list"),
        ("run.json", b"", "run.json: not valid JSON"),
        ("run.json", b'{"run_version": 99}', "run.json: run_version: must be 1, not 99"),
        ("run.json", b'{"run_version": 1}', "run.json: finished: is missing; get the folder again"),
        ("run.json", b"[]", "run.json: expected object, got list"),
    ],
)
def test_a_broken_folder_is_named_and_the_others_are_on_the_board(
    harness: Callable[..., Any], results: Path, name: str, content: bytes, said: str
) -> None:
    assert harness("leaderboard", "--quiet").status == 0
    folder = next(results.glob("*random*"))
    (folder / name).write_bytes(content)
    told = harness("leaderboard")
    assert told.status == 1
    assert f"excluded: results/{folder.name}" in told.err
    assert said in told.err
    assert told.err.count("\n") == 1
    page = (results / "leaderboard.html").read_text("utf-8")
    (packed,) = re.findall(r'id="data">([^<]*)</script>', page)
    assert folder.name in orjson.loads(gzip.decompress(base64.b64decode(packed)))["broken"]
    board = orjson.loads((results / "leaderboard.json").read_bytes())
    others = [one["system"] for one in board["boards"][0]["entries"]]
    assert "random" not in others
    assert others
    for run in results.glob("*/run.json"):
        run.write_bytes(b"{")
    before = (results / "leaderboard.json").read_bytes()
    assert harness("leaderboard").status == 2
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


@pytest.mark.extensions
def test_a_broken_folder_is_named_and_the_others_are_published(
    harness: Callable[..., Any], results: Path, tmp_path: Path
) -> None:
    folder = next(results.glob("*random*"))
    (folder / "run.json").write_bytes(b"{")
    told = harness("board", "publish", "site", "--results", str(results.resolve()))
    assert told.status == 1
    assert f"excluded: {results.resolve() / folder.name}" in told.err
    board = orjson.loads(Path("site/leaderboard.json").read_bytes())
    assert board["boards"]
    page = Path("site/index.html").read_text("utf-8")
    (packed,) = re.findall(r'id="data">([^<]*)</script>', page)
    broken = orjson.loads(gzip.decompress(base64.b64decode(packed)))["broken"]
    assert list(broken) == [folder.name]
    assert broken[folder.name].startswith(f"{results.name}/{folder.name}/run.json: ")
    for run in results.glob("*/run.json"):
        run.write_bytes(b"{")
    assert harness("board", "publish", "site").status == 2
