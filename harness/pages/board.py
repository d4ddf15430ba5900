"""The boards as an HTML page, from what stands in leaderboard.json."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
from harness.files import disk_errors, write_bytes
from harness.pages.html import page
from harness.schema import Ability
from harness.scoring.protocols import PROTOCOLS
from harness.verdicts.board.entries import SLICES, labels, told
from harness.verdicts.board.files import Pairs, write_boards
from harness.verdicts.board.leaderboard import build
from harness.verdicts.board.leading import key_of
from harness.verdicts.board.pairs import pairs
from harness.verdicts.board.summary import board_id, in_short
from harness.verdicts.board.table import title

_REPORT = "report.html"  # where `harness report` puts it in a run's folder
_RESULTS = "results"  # the folder that commands take if not told another
_PART = (
    "entries",
    "views",
    "claims",
    "answers",
)  # of a board, what is looked at only once it is chosen
_OF_LEVELS = (
    *("random_baseline", "upper_bound", "random_method", "upper_bound_method"),
    "ties",
)  # not by entry on the page
_FAMILIES = ("recall", "hit", "recall_all", "ndcg", "mrr", "precision", "f1", "map", "ndcg_b2")


Claims = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""What authors say of systems on a board, in the form of `records.BoardClaim`."""


def write_board(
    results: Path, out: Path, claims: Claims | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Build the boards of the runs below `results`, write them to `out` and, as a page, beside it.

    Gives the boards, and why runs that are on none cannot be read, by their names: the page says so
    too. `out` sums the boards up, and all the rest is in a folder beside it. The page links to the
    reports that lie in the folders of the runs by now. Raises UsageError as `build` does, and where
    `out` cannot be written.
    """
    built, broken = build(results)
    if claims is not None:
        for board in built["boards"]:
            board["claims"] = list(claims(board))
    compared = {board_id(board): pairs(results, board) for board in built["boards"]}
    found = sorted(results.glob(f"[!.]*/{_REPORT}"))
    reports = {file.parent.name: os.path.relpath(file, out.parent) for file in found}
    where = os.path.relpath(results)
    made = board_page(built, pairs=compared, broken=broken, reports=reports, results=where)
    with disk_errors(out.parent, "name another file with --out"):
        write_boards(out, built, compared)
        write_bytes(out.with_suffix(".html"), made)
    return built, broken


def board_page(
    leaderboard: Mapping[str, Any],
    *,
    pairs: Pairs | None = None,
    broken: Mapping[str, str] | None = None,
    reports: Mapping[str, str] | None = None,
    results: str = _RESULTS,
    live: bool = False,
) -> bytes:
    """One self-contained file of `page_data`; `live` is for a server that it asks for news.

    Each board, and the pairs of each, is packed by itself and unpacked once it is looked at: a page
    of ten boards opens as fast as one of a single board. A server is asked for them instead.
    """
    data = page_data(leaderboard, broken=broken, reports=reports, results=results)
    light, parts = in_parts(data)
    if live:
        return page("Leaderboard", "board", light, live=True)
    beside = {f"pairs-{name}": one for name, one in (pairs or {}).items() if one is not None}
    return page("Leaderboard", "board", light, parts=parts | beside)


def in_parts(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a page needs to choose a board by, and each board by its name in the page."""
    parts = {
        f"board-{board['id']}": {name: board[name] for name in _PART if name in board}
        for board in data["boards"]
    }
    heads = [
        {name: value for name, value in board.items() if name not in _PART}
        for board in data["boards"]
    ]
    return {**data, "boards": heads}, parts


def page_data(
    leaderboard: Mapping[str, Any],
    *,
    broken: Mapping[str, str] | None = None,
    reports: Mapping[str, str] | None = None,
    results: str = _RESULTS,
) -> dict[str, Any]:
    """The boards, those of most runs first, and what can be chosen of each.

    Every entry has its label and the parameters that stand beside it, and every protocol what
    chance and ceiling are. `broken` says why
    runs could not be read, by their names, `reports` where a page beside them finds their reports,
    and `results` is the folder as a command is to name it.
    """
    boards = [
        {
            **board,
            "id": board_id(board),
            "title": title(dict(board)),
            "runs": len(board["entries"]),
            "entries": [
                {
                    **_shown(entry),
                    "label": label,
                    **apart,
                    "report": (reports or {}).get(entry["run"]),
                }
                for entry, label, apart in zip(
                    board["entries"],
                    labels(board["entries"]),
                    told(board["entries"]),
                    strict=True,
                )
            ],
            "views": _views(board["entries"]),
        }
        for board in sorted(leaderboard["boards"], key=lambda one: -len(one["entries"]))
    ]
    return {
        "harness": harness.__version__,
        "boards": boards,
        "broken": dict(broken or {}),
        "options": "" if results == _RESULTS else f" --results {shlex.quote(results)}",
    }


def _shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what the page says once for all of a board, its scores in short."""
    blocks = [
        {
            **block,
            "slices": {
                name: {
                    metric: _short({p: v for p, v in cell.items() if p not in _OF_LEVELS})
                    for metric, cell in cells.items()
                }
                for name, cells in block["slices"].items()
            },
        }
        for block in entry["protocols"]
    ]
    return {**entry, "protocols": blocks}


def _short(cell: Any) -> Any:
    """A cell with its numbers as a page can show them: they make most of its size."""
    if isinstance(cell, Mapping):
        return {name: _short(value) for name, value in cell.items()}
    return in_short(cell) if isinstance(cell, float) else cell


def _views(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The protocols of a board; entries refer to one by its place."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for entry in entries:
        for block in entry["protocols"]:
            found.setdefault(key_of(block), []).append(block)
    several = {key[:2] for key in found if sum(key[:2] == other[:2] for other in found) > 1}
    views = []
    for key, blocks in found.items():
        protocol, level, ties, missing = key
        more = f", ties {ties}, missing {missing}" if key[:2] in several else ""
        slices = [name for name in SLICES if any(name in block["slices"] for block in blocks)]
        metrics = {m: None for block in blocks for cells in block["slices"].values() for m in cells}
        views.append(
            {
                "name": f"{protocol}, {level}{more}",
                "key": list(key),
                "official": _official(protocol),
                "slices": slices,
                "metrics": [
                    {"name": m, "family": family, "k": int(k) if k else None}
                    for m in sorted(metrics, key=_place)
                    for family, _, k in [m.partition("@")]
                ],
                "levels": {name: _levels(blocks, name, metrics) for name in slices},
            }
        )
    return sorted(views, key=_order)


def _official(protocol: str) -> str:
    """The published scorer that a protocol gives the numbers of; empty for the harness's own."""
    known = PROTOCOLS.get(protocol.partition("/")[0])
    return known.source if known else ""


def _order(view: Mapping[str, Any]) -> tuple[bool, bool, str]:
    """What a page opens with stands first.

    That is `memory` where there are several abilities, else `trec`; documents stand before the
    sessions that they were taken from.
    """
    abilities = set(view["slices"]) & set(Ability)
    protocol, level = view["key"][0].partition("/")[0], view["key"][1]
    leading = "memory" if len(abilities) > 1 else "trec"
    return (protocol != leading, ">" in level, view["name"])


def _levels(
    blocks: Iterable[Mapping[str, Any]], name: str, metrics: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Least and greatest chance and ceiling among the systems: they differ where queries failed."""
    levels: dict[str, dict[str, Any]] = {}
    for metric in metrics:
        cells = [block["slices"].get(name, {}).get(metric, {}) for block in blocks]
        for part in ("random_baseline", "upper_bound"):
            known = [cell[part] for cell in cells if cell.get(part) is not None]
            if known:
                levels.setdefault(metric, {})[part] = [min(known), max(known)]
        methods = (c["upper_bound_method"] for c in cells if "upper_bound_method" in c)
        if method := next(methods, None):
            levels[metric]["upper_bound_method"] = method
    return levels


def _place(metric: str) -> tuple[int, str, int]:
    family, _, k = metric.partition("@")
    at = _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)
    return (at, family, int(k or 0))
