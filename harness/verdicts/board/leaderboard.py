"""leaderboard.json from run folders: the same folders give the same bytes.

Its form is `leaderboard.schema.json` beside this file. Runs that do not compare (another dataset,
fingerprint, granularity, text, split, depth, set of queries, version) stand on boards of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import disk_errors, write_bytes
from harness.pages.board import board_page
from harness.verdicts.board.entries import read_entry
from harness.verdicts.board.ranks import rank_ranges

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


def write_board(results: Path, out: Path) -> dict[str, Any]:
    """Build the boards of the runs below `results`, write them to `out` and, as a page, beside it.

    Raises UsageError as `build` does, and where `out` cannot be written.
    """
    built = build(results)
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, _lines(built))
        write_bytes(out.with_suffix(".html"), board_page(built))
    return built


def _lines(built: dict[str, Any]) -> bytes:
    """JSON with an entry a line: small, and a new run is a new line for whoever compares files."""
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

    Systems that were shown the answer key have no rank, nor have cells without an interval, nor
    such of fewer queries than others: who fails on the hard ones must not rise by it.
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
