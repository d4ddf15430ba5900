"""Boards from run folders: the same folders give the same boards.

What is written of them is in `files.py`. Runs that do not compare (another dataset,
fingerprint, granularity, text, split, depth, set of queries, version) stand on boards of their own.
A system has a range of ranks, not one rank, where the queries cannot tell it from others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.verdicts.board.answers import answers_below, key_of_dataset
from harness.verdicts.board.entries import read_entry
from harness.verdicts.board.ranks import add_ranks
from harness.verdicts.board.records import BOARD_VERSION


def build(results: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Boards of the run folders below `results` that have been scored, an entry a run; and why
    others cannot be read, by their names.

    Boards are sorted by what compares, entries by system and run. Raises UsageError when the folder
    is missing, holds no run, or none that can be read.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    built, broken = gather(results)
    if not built["boards"]:
        for why in broken.values():
            raise UsageError(why)
        raise UsageError(f"{results}: holds no scored run; `harness run` makes one")
    return built, broken


def gather(results: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Boards of the runs that can be read, and why the others cannot, by the names of these."""
    boards: dict[tuple[str, ...], dict[str, Any]] = {}
    broken = {}
    beside = answers_below(results)
    for folder in _runs(results):
        if not (folder / "scores.json").is_file():
            continue
        try:
            head, entry = read_entry(folder)
        except UsageError as error:
            broken[folder.name] = str(error)
        else:
            boards.setdefault(_order(head), {**head, "entries": []})["entries"].append(entry)
    for board in boards.values():
        board["entries"].sort(key=lambda entry: (entry["system"], entry["run"]))
        add_ranks(results, board["entries"])
        if answers := beside.get(key_of_dataset(board["dataset"])):
            board["answers"] = answers
    built = {"schema_version": BOARD_VERSION, "boards": [boards[key] for key in sorted(boards)]}
    return built, broken


def unscored(results: Path) -> list[str]:
    """Names of the run folders that have no scores, and are not on the board for that."""
    return [folder.name for folder in _runs(results) if not (folder / "scores.json").is_file()]


def _runs(results: Path) -> list[Path]:
    """Run folders, by name; hidden ones are not finished."""
    found = (path.parent for path in results.glob("*/run.json"))
    return sorted(folder for folder in found if not folder.name.startswith("."))


def _order(head: dict[str, Any]) -> tuple[str, ...]:
    d = head["dataset"]
    group = (d["name"], d["granularity"], d["text"], d["split"], d["fingerprint"])
    queries = (f"{head['queries']['asked']:09}", head["queries"]["digest"])
    return (*group, f"{head['depth']:09}", *queries, head["scoring"]["harness"])
