"""Builds boards from run folders, and reads and writes them; output is deterministic.

Runs that do not compare (another dataset, fingerprint, granularity, text, split, depth, set of
queries, version) are on separate boards. A system has a range of ranks if the queries do not
distinguish it from others.

    leaderboard.json                     the summary (`records.Leaderboard`)
    leaderboard-files/BOARD.json         everything of one board (`records.Board`)
    leaderboard-files/BOARD.pairs.json   every two of its systems (`records.Pairs`)

Each entry is on a separate line, so that a new run is a new line in a diff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from harness.analysis.board.answers import dataset_key, read_answers
from harness.analysis.board.entries import read_board
from harness.analysis.board.ranks import KnownRanges, add_ranks
from harness.analysis.board.records import Board, Leaderboard, PairedTests, ShortBoard
from harness.analysis.board.summary import board_id, summarize
from harness.errors import UsageError
from harness.io.files import write_bytes
from harness.io.records import encode, read_json_record
from harness.runs.folder.run_state import finished_runs


def build(results: Path, known: KnownRanges | None = None) -> tuple[list[Board], dict[str, str]]:
    """Builds boards of the scored run folders below `results`, with one entry per run.

    Also returns the reasons why others cannot be read, by name. Boards are sorted by their
    settings, entries by system and run. `known` gets their ranges of ranks. Raises UsageError if
    the folder is missing, or has no readable run.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    boards, broken = gather(results, known)
    if not boards:
        for why in broken.values():
            raise UsageError(why)
        raise UsageError(f"{results}: holds no scored run; `harness run` makes one")
    return boards, broken


def gather(results: Path, known: KnownRanges | None = None) -> tuple[list[Board], dict[str, str]]:
    """Builds boards like `build`, but none if no run can be read."""
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
        add_ranks(results, entries, known)
        beside = answers.get(dataset_key(first.dataset), [])
        boards.append(replace(first, entries=entries, answers=beside))
    return boards, broken


def unscored(results: Path) -> list[str]:
    """Returns the names of run folders without scores, which are on no board."""
    return [
        folder.name for folder in finished_runs(results) if not (folder / "scores.json").is_file()
    ]


def _order(board: Board) -> tuple[str, ...]:
    d = board.dataset
    group = (d.name, d.granularity, d.text, d.split, d.fingerprint)
    queries = (f"{board.queries.n:09}", board.queries.digest)
    return (*group, f"{board.depth:09}", *queries, board.scoring.harness)


# -- Boards as files: leaderboard.json, a summary, and a folder with the rest ----------------------


_REMEDY = "`harness leaderboard` makes it again from the runs"

PairsByBoard = Mapping[str, PairedTests | None]
"""The pairs of each board by its id; None if no two of its systems compare."""


def write_boards(out: Path, boards: Sequence[Board], pairs: PairsByBoard) -> None:
    """Writes leaderboard.json to `out`, and its other files; removes those of former boards.

    Other files in the folder are not changed.
    """
    folder = out.with_name(f"{out.stem}-files")
    before = _files_of(out)
    paired = {name for name, one in pairs.items() if one is not None}
    summary = summarize(boards, folder.name, paired)
    for board, short in zip(boards, summary.boards, strict=True):
        write_bytes(out.parent / short.file, _lines(replace(board, answers=[], claims=[])) + b"\n")
        if short.pairs is not None:
            write_bytes(out.parent / short.pairs, encode(pairs[short.id]) + b"\n")
    start = encode(replace(summary, boards=[])).removesuffix(b"]}")
    lines = b",\n".join(_lines(board) for board in summary.boards)
    write_bytes(out, start + b"\n" + lines + b"\n]}\n")
    for removed in before - _files_of(out):
        (out.parent / removed).unlink(missing_ok=True)


def _files_of(out: Path) -> set[str]:
    """Returns the files that a leaderboard.json names; none if it cannot be read."""
    try:
        boards = read_json_record(out, Leaderboard).boards
    except UsageError:
        return set()
    named = {name for one in boards for name in (one.file, one.pairs) if name}
    return {name for name in named if Path(name).parent == Path(f"{out.stem}-files")}


B = TypeVar("B", Board, ShortBoard)


def _lines(board: B) -> bytes:
    """Encodes a board with one line per entry; entries are its last field."""
    head = encode(replace(board, entries=[])).removesuffix(b"]}")
    return head + b"\n" + b",\n".join(encode(entry) for entry in board.entries) + b"\n]}"


def read_boards(path: Path) -> list[Board]:
    """Reads complete boards from a leaderboard.json and its other files.

    Raises UsageError for other versions and kinds, and if a file is missing or of another board.
    """
    return [_board(path, one) for one in read_json_record(path, Leaderboard, _REMEDY).boards]


def _board(path: Path, short: ShortBoard) -> Board:
    file = path.parent / short.file
    if not file.is_file():
        raise UsageError(
            f"{file}: is missing; {path.name} is a summary, and needs its folder of boards"
        )
    board = read_json_record(file, Board)
    if board_id(board) != short.id or board.runs != [entry.run for entry in short.entries]:
        raise UsageError(
            f"{file}: is not the board that {path.name} sums up; copy both of one build"
        )
    return replace(board, answers=short.answers, claims=short.claims)
