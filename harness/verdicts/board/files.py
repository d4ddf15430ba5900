"""Boards as files: leaderboard.json, which sums up, and beside it a folder with all the rest.

    leaderboard.json                     what people read (`records.Leaderboard`)
    leaderboard-files/BOARD.json         everything of one board (`records.Board`)
    leaderboard-files/BOARD.pairs.json   every two of its systems (`records.Pairs`)

The same boards give the same bytes; an entry is a line, so that a new run is a new line for who
compares files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from harness.errors import UsageError
from harness.files import read_json, write_bytes
from harness.records.base import convert
from harness.verdicts.board.records import BOARD_VERSION, Board, Leaderboard
from harness.verdicts.board.summary import board_id, summary

_BESIDE = ("answers", "claims")

Pairs = Mapping[str, Mapping[str, Any] | None]
"""The pairs of each board by its id; None where no two of its systems compare."""


def write_boards(out: Path, built: Mapping[str, Any], pairs: Pairs) -> None:
    """Write leaderboard.json to `out`, and the files beside it, those of boards that are gone away.

    Nothing else in their folder is touched.
    """
    folder = out.with_name(f"{out.stem}-files")
    before = _named(out)
    found = summary(built, folder.name, {name for name, one in pairs.items() if one is not None})
    for board, summed in zip(built["boards"], found["boards"], strict=True):
        whole = {"schema_version": BOARD_VERSION, **board}
        for name in _BESIDE:
            whole.pop(name, None)  # no part of its entries: they stand in the summary
        write_bytes(out.parent / summed["file"], _lines(whole) + b"\n")
        if (compared := pairs.get(summed["id"])) is not None:
            write_bytes(out.parent / summed["pairs"], _plain(compared) + b"\n")
    boards = b",\n".join(_lines(board) for board in found["boards"])
    start = b'{"schema_version":%d,"boards":[\n' % BOARD_VERSION
    write_bytes(out, start + boards + b"\n]}\n")
    for gone in before - _named(out):
        (out.parent / gone).unlink(missing_ok=True)


def _named(out: Path) -> set[str]:
    """The files beside a leaderboard.json that it names as its own; none of one of another form."""
    if not out.is_file():
        return set()
    try:
        boards = orjson.loads(out.read_bytes())["boards"]
        named = {str(one[name]) for one in boards for name in ("file", "pairs") if one.get(name)}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return set()  # it is replaced whole, and what it named is not known
    return {name for name in named if Path(name).parent == Path(f"{out.stem}-files")}


def _lines(board: Mapping[str, Any]) -> bytes:
    """A JSON object with a line for each of its entries."""
    head = _plain({name: value for name, value in board.items() if name != "entries"})
    entries = b",\n".join(_plain(entry) for entry in board["entries"])
    return head[:-1] + b',"entries":[\n' + entries + b"\n]}"


def _plain(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def read_boards(path: Path) -> dict[str, Any]:
    """Boards in full from a leaderboard.json and the files beside it.

    Raises UsageError for other versions and kinds, and where a file beside it is missing or of
    another board.
    """
    read = read_json(path)
    version = read.get("schema_version") if isinstance(read, dict) else None
    if version != BOARD_VERSION:
        raise UsageError(
            f"{path}: has schema_version {version}, and {BOARD_VERSION} is read here; `harness "
            "leaderboard` makes it again from the runs"
        )
    convert(read, Leaderboard, str(path))
    boards = [_board(path, one) for one in read["boards"]]
    return {"schema_version": BOARD_VERSION, "boards": boards}


def _board(path: Path, summed: Mapping[str, Any]) -> dict[str, Any]:
    file = path.parent / summed["file"]
    if not file.is_file():
        raise UsageError(
            f"{file}: is missing; {path.name} is a summary, so the folder beside it belongs to it"
        )
    board = read_json(file)
    convert(board, Board, str(file))
    del board["schema_version"]
    runs = [entry["run"] for entry in summed["entries"]]
    if board_id(board) != summed["id"] or [entry["run"] for entry in board["entries"]] != runs:
        raise UsageError(
            f"{file}: is not the board that {path.name} sums up; copy both of one build"
        )
    return {**board, **{name: summed[name] for name in _BESIDE if name in summed}}
