"""leaderboard.json from run folders: the same folders give the same bytes.

Its form is `leaderboard.schema.json` beside this file. Runs that do not compare (another dataset,
fingerprint, granularity, text, split, depth, set of queries, version) stand on boards of their own.
A system has a range of ranks, not one rank, where intervals cannot tell it from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.verdicts.board.entries import read_entry

SCHEMA_VERSION = 2
SCHEMA = Path(__file__).with_name("leaderboard.schema.json")


def build(results: Path) -> dict[str, Any]:
    """Boards of the run folders below `results` that have been scored, an entry a run.

    Boards are sorted by what compares, entries by system and run. Raises UsageError when the folder
    is missing, holds no run, or holds a broken one.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    found = [read_entry(folder) for folder in _runs(results) if (folder / "scores.json").is_file()]
    if not found:
        raise UsageError(f"{results}: holds no scored run; `harness run` makes one")
    boards: dict[tuple[str, ...], dict[str, Any]] = {}
    for head, entry in found:
        boards.setdefault(_order(head), {**head, "entries": []})["entries"].append(entry)
    for board in boards.values():
        board["entries"].sort(key=lambda entry: (entry["system"], entry["run"]))
        _rank(board["entries"])
    return {"schema_version": SCHEMA_VERSION, "boards": [boards[key] for key in sorted(boards)]}


def as_json(built: dict[str, Any]) -> bytes:
    """leaderboard.json: an entry a line, so that a new run is a new line for who compares files."""
    import orjson

    def plain(value: Any) -> bytes:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

    boards = []
    for board in built["boards"]:
        head = plain({name: value for name, value in board.items() if name != "entries"})
        entries = b",\n".join(plain(entry) for entry in board["entries"])
        boards.append(head[:-1] + b',"entries":[\n' + entries + b"\n]}")
    start = b'{"schema_version":%d,"boards":[\n' % built["schema_version"]
    return start + b",\n".join(boards) + b"\n]}\n"


def unscored(results: Path) -> list[str]:
    """Names of the run folders that have no scores, and are not on the board for that."""
    return [folder.name for folder in _runs(results) if not (folder / "scores.json").is_file()]


def rank_ranges(intervals: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """The best and the worst rank of each system, from 1, by (low, high) intervals of its value.

    The best is one below the systems whose whole interval lies above its own, the worst is as many
    places from the end as systems lie wholly below it. Where intervals overlap, the order is open;
    a paired comparison of two runs can often tell more (`harness compare`).
    """
    low = np.array([interval[0] for interval in intervals], float)
    high = np.array([interval[1] for interval in intervals], float)
    above = (low[None, :] > high[:, None]).sum(axis=1)
    below = (high[None, :] < low[:, None]).sum(axis=1)
    n = len(intervals)
    return [(int(a) + 1, n - int(b)) for a, b in zip(above, below, strict=True)]


def _runs(results: Path) -> list[Path]:
    """Run folders, by name; hidden ones are not finished."""
    found = (path.parent for path in results.glob("*/run.json"))
    return sorted(folder for folder in found if not folder.name.startswith("."))


def _order(head: dict[str, Any]) -> tuple[str, ...]:
    d = head["dataset"]
    group = (d["name"], d["granularity"], d["text"], d["split"], d["fingerprint"])
    queries = (f"{head['queries']['asked']:09}", head["queries"]["digest"])
    return (*group, f"{head['depth']:09}", *queries, head["scoring"]["harness"])


def _rank(entries: list[dict[str, Any]]) -> None:
    """Give every cell its `rank`, [best, worst], among the cells that it compares with.

    Systems that were shown the answer key have no rank. Nor have cells without an interval, nor
    those over fewer queries than others: to fail on hard queries must not raise a rank.
    """
    cells: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for entry in entries:
        if entry["sees_answer_key"]:
            continue
        for block in entry["protocols"]:
            same = (block["protocol"], block["unit"], block["ties"], str(block["missing"]))
            for name, metrics in block["slices"].items():
                for metric, cell in metrics.items():
                    if "interval" in cell:
                        cells.setdefault((*same, name, metric), []).append(cell)
    for whole in cells.values():
        most = max(cell["n"] for cell in whole)
        group = [cell for cell in whole if cell["n"] == most]
        intervals = [(cell["interval"]["low"], cell["interval"]["high"]) for cell in group]
        for cell, ranks in zip(group, rank_ranges(intervals), strict=True):
            cell["rank"] = list(ranks)
