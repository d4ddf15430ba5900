"""The boards as an HTML page, from what stands in leaderboard.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
from harness.files import disk_errors, write_bytes
from harness.pages.html import page
from harness.schema import Ability
from harness.verdicts.board.entries import SLICES
from harness.verdicts.board.leaderboard import as_json, build
from harness.verdicts.board.table import title

_FAMILIES = ("recall", "hit", "recall_all", "ndcg", "mrr", "precision", "f1", "map", "ndcg_b2")


def write_board(results: Path, out: Path) -> dict[str, Any]:
    """Build the boards of the runs below `results`, write them to `out` and, as a page, beside it.

    Raises UsageError as `build` does, and where `out` cannot be written.
    """
    built = build(results)
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, as_json(built))
        write_bytes(out.with_suffix(".html"), board_page(built))
    return built


def board_page(leaderboard: Mapping[str, Any], *, live: bool = False) -> bytes:
    """One self-contained file; `live` is for a server that it asks for news."""
    return page("Leaderboard", "board", page_data(leaderboard), live=live)


def page_data(leaderboard: Mapping[str, Any]) -> dict[str, Any]:
    """The boards, and for each protocol what can be chosen and what chance and ceiling are."""
    boards = [
        {**board, "title": title(board), "views": _views(board["entries"])}
        for board in leaderboard["boards"]
    ]
    return {"harness": harness.__version__, "boards": boards}


def _views(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The protocols of a board; entries refer to one by its place."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for entry in entries:
        for block in entry["protocols"]:
            found.setdefault(_key(block), []).append(block)
    several = {key[:2] for key in found if sum(key[:2] == other[:2] for other in found) > 1}
    views = []
    for key, blocks in found.items():
        protocol, unit, ties, missing = key
        more = f", ties {ties}, missing {missing}" if key[:2] in several else ""
        slices = [name for name in SLICES if any(name in block["slices"] for block in blocks)]
        metrics = {m: None for block in blocks for cells in block["slices"].values() for m in cells}
        views.append(
            {
                "name": f"{protocol}, {unit}{more}",
                "key": list(key),
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


def _key(block: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (block["protocol"], block["unit"], block["ties"], str(block["missing"]))


def _order(view: Mapping[str, Any]) -> tuple[bool, bool, str]:
    """What a page opens with stands first.

    That is `memory` where there are several abilities, else `trec`; documents stand before the
    sessions that they were taken from.
    """
    abilities = set(view["slices"]) & set(Ability)
    protocol, unit = view["key"][0].partition("/")[0], view["key"][1]
    leading = "memory" if len(abilities) > 1 else "trec"
    return (protocol != leading, ">" in unit, view["name"])


def _levels(
    blocks: Iterable[Mapping[str, Any]], name: str, metrics: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Least and greatest chance and ceiling among the systems: they differ where queries failed."""
    levels: dict[str, dict[str, Any]] = {}
    for metric in metrics:
        cells = [block["slices"].get(name, {}).get(metric, {}) for block in blocks]
        for part in ("chance", "ceiling"):
            known = [cell[part] for cell in cells if cell.get(part) is not None]
            if known:
                levels.setdefault(metric, {})[part] = [min(known), max(known)]
        if bound := next((c["ceiling_is"] for c in cells if "ceiling_is" in c), None):
            levels[metric]["ceiling_is"] = bound
    return levels


def _place(metric: str) -> tuple[int, str, int]:
    family, _, k = metric.partition("@")
    at = _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)
    return (at, family, int(k or 0))
