"""Builds boards from run folders: the same folders give the same boards.

`files.py` writes them. Runs that do not compare (another dataset, fingerprint, granularity, text,
split, depth, set of queries, version) are on boards of their own. A system has a range of ranks,
not one rank, where the queries cannot tell it from others.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from harness.analysis.board.answers import dataset_key, read_answers
from harness.analysis.board.entries import read_board
from harness.analysis.board.ranks import add_ranks
from harness.analysis.board.records import Board
from harness.errors import UsageError
from harness.runs.folder.store import finished_runs


def build(results: Path) -> tuple[list[Board], dict[str, str]]:
    """Builds boards of the scored run folders below `results`, an entry a run.

    Also returns why others cannot be read, by their names. Boards are sorted by what compares,
    entries by system and run. Raises UsageError when the folder is missing, holds no run, or none
    that can be read.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    boards, broken = gather(results)
    if not boards:
        for why in broken.values():
            raise UsageError(why)
        raise UsageError(f"{results}: holds no scored run; `harness run` makes one")
    return boards, broken


def gather(results: Path) -> tuple[list[Board], dict[str, str]]:
    """Builds boards as `build` does, none where no run can be read."""
    groups: dict[tuple[str, ...], list[Board]] = {}
    broken = {}
    for folder in finished_runs(results):
        if (folder / "scores.json").is_file():
            try:
                board = read_board(folder)
            except UsageError as error:
                broken[folder.name] = str(error)
            else:
                groups.setdefault(_order(board), []).append(board)
    answers = read_answers(results)
    boards = []
    for _, (first, *others) in sorted(groups.items(), key=lambda group: group[0]):
        entries = [entry for one in (first, *others) for entry in one.entries]
        entries.sort(key=lambda entry: (entry.system, entry.run))
        add_ranks(results, entries)
        beside = answers.get(dataset_key(first.dataset), [])
        boards.append(replace(first, entries=entries, answers=beside))
    return boards, broken


def unscored(results: Path) -> list[str]:
    """Returns the names of the run folders that have no scores and therefore are on no board."""
    return [
        folder.name for folder in finished_runs(results) if not (folder / "scores.json").is_file()
    ]


def _order(board: Board) -> tuple[str, ...]:
    d = board.dataset
    group = (d.name, d.granularity, d.text, d.split, d.fingerprint)
    queries = (f"{board.queries.n:09}", board.queries.digest)
    return (*group, f"{board.depth:09}", *queries, board.scoring.harness)
