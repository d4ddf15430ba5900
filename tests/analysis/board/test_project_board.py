"""The published results of the project equal those of a fresh run, and each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT

from harness.__main__ import main
from harness.analysis.board.leaderboard import read_boards
from harness.analysis.board.records import Board, RankedResult

RESULTS = ROOT / "results"
TABLE = ("sample, turn", "locomo, turn", "locomo, session", "beir/scifact, passage")
"""The boards of the columns of the table in results/board/README.md."""


def boards(folder: Path) -> dict[str, Board]:
    found = read_boards(folder / "leaderboard.json")
    return {f"{one.dataset.name}, {one.dataset.granularity}": one for one in found}


Cell = tuple[str, str, str, str, str]


def results_of(board: Board, system: str) -> dict[Cell, RankedResult]:
    entry = next(one for one in board.entries if system in (one.name, one.system))
    return {
        (system, one.protocol, one.level, part, metric): result
        for one in entry.protocols
        for part, metrics in one.slices.items()
        for metric, result in metrics.items()
    }


def assert_same(published: dict[Cell, RankedResult], other: dict[Cell, RankedResult]) -> None:
    assert published.keys() == other.keys()
    for cell, result in published.items():
        mine, theirs = result.interval, other[cell].interval
        assert (result.n, result.value) == (other[cell].n, pytest.approx(other[cell].value)), cell
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high)), cell


def assert_repeated(name: str, systems: tuple[str, ...], out: Path, *options: str) -> None:
    for system in systems:
        told = ["run", "--retriever", system, "--k", "100", "--out", str(out), "--quiet"]
        assert main([*told, *options]) == 0
    assert main(["leaderboard", "--results", str(out), "--quiet"]) == 0
    published, fresh = boards(RESULTS / "board")[name], boards(out)[name]
    assert fresh.dataset == published.dataset
    for system in systems:
        assert_same(results_of(published, system), results_of(fresh, system))


@pytest.mark.slow
def test_a_fresh_run_on_the_sample_repeats_the_published_results(tmp_path: Path) -> None:
    assert_repeated(
        "sample, turn", ("bm25", "tfidf", "random", "recency"), tmp_path, "--dataset", "sample"
    )


@pytest.mark.slow
def test_a_fresh_run_on_locomo_repeats_the_published_results(data: Path, tmp_path: Path) -> None:
    file = str(data / "locomo" / "locomo10.json")
    assert_repeated(
        "locomo, session",
        ("bm25",),
        tmp_path,
        *("--dataset", "locomo", "--granularity", "session", "--source", file),
    )


@pytest.mark.parametrize("name", ["locomo, turn", "locomo, session"])
@pytest.mark.parametrize("system", ["bm25", "minilm", "random"])
def test_a_run_has_the_same_values_and_intervals_on_all_boards(name: str, system: str) -> None:
    """By memory/1: trec/1 reorders equal scores, so a shorter ranking has other documents."""
    own, field = (boards(RESULTS / folder)[name] for folder in ("board", "field"))
    both = (results_of(own, system), results_of(field, system))
    common = {
        cell
        for cell in both[0].keys() & both[1].keys()
        if cell[1:3] == ("memory/1", own.dataset.granularity)
        and int(cell[4].partition("@")[2] or own.depth) <= field.depth
    }
    assert len(common) > 20
    assert_same(*({cell: found[cell] for cell in common} for found in both))


def test_the_table_of_the_readme_has_the_values_and_ranks_of_the_board() -> None:
    rows = re.findall(r"^\| (.*) \|$", (RESULTS / "board" / "README.md").read_text(), re.MULTILINE)
    cells = {name: rest for name, *rest in (row.split(" | ") for row in rows)}
    every = boards(RESULTS / "board")
    for column, name in enumerate(TABLE):
        board = every[name]
        metric = "ndcg@10" if "scifact" in name else "recall@10"
        for entry in board.entries:
            label = entry.name or entry.system
            results = results_of(board, label)
            protocol = ("trec/1" if "scifact" in name else "memory/1", board.dataset.granularity)
            result = results[label, *protocol, "all", metric]
            assert result.rank is not None
            ranks = "-".join(map(str, dict.fromkeys(result.rank)))
            assert cells[label][column] == f"{result.value:.4f} ({ranks})"
