"""leaderboard.json: what people read of boards, and the names of the files that hold the rest.

Of every entry the metrics that a board is shown by, over all questions, and the first of them by
ability. What else was measured, costs in full and where an entry comes from stand in the file of
its board, and every two of its systems, question by question, in the one of its pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from harness.schema import Ability
from harness.scoring.signature import digest
from harness.verdicts.board.entries import labels, told
from harness.verdicts.board.leading import leading
from harness.verdicts.board.records import BOARD_VERSION
from harness.verdicts.board.table import title


def in_short(value: float) -> float:
    """To six significant digits: what a person reads of a mean, and no zero that is none."""
    return float(f"{value:.6g}")


def board_id(board: Mapping[str, Any]) -> str:
    """A name for a board that stays as long as what compares on it."""
    head = {name: board[name] for name in ("dataset", "depth", "queries", "scoring")}
    d = board["dataset"]
    words = "-".join(str(d[name]) for name in ("name", "granularity", "split"))
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in words.lower())
    said = orjson.dumps(head, option=orjson.OPT_SORT_KEYS).decode()
    return f"{plain[:60].strip('-')}-{digest([said])}"


def summary(built: Mapping[str, Any], folder: str, paired: Collection[str] = ()) -> dict[str, Any]:
    """The object of leaderboard.json; `folder` is where the other files are, as seen from it.

    `paired` are the ids of the boards that have a file of pairs.
    """
    boards = [_board(board, folder, paired) for board in built["boards"]]
    return {"schema_version": BOARD_VERSION, "boards": boards}


def _board(board: Mapping[str, Any], folder: str, paired: Collection[str]) -> dict[str, Any]:
    name = board_id(board)
    entries = board["entries"]
    block, metrics = next((found for e in entries if (found := leading(e))[0]), (None, []))
    shown = zip(entries, labels(entries), told(entries), strict=True)
    return {
        "id": name,
        "title": title(dict(board)),
        "file": f"{folder}/{name}.json",
        "pairs": f"{folder}/{name}.pairs.json" if name in paired else None,
        **{name: board[name] for name in ("dataset", "depth", "queries", "scoring")},
        "protocol": block and {n: block[n] for n in ("protocol", "level", "ties", "missing")},
        "metrics": metrics,
        **{name: board[name] for name in ("answers", "claims") if board.get(name)},
        "entries": [_entry(entry, label, apart["told"]) for entry, label, apart in shown],
    }


def _entry(entry: Mapping[str, Any], label: str, params: Mapping[str, Any]) -> dict[str, Any]:
    block, metrics = leading(entry)
    cost, provenance = entry["cost"], entry["provenance"]
    search = cost.get("search_ms") or {}
    return {
        **{
            name: entry[name]
            for name in ("run", "system", "version", "submitted_by", "sees_gold_labels")
        },
        "label": label,
        "params": params,
        "submitted": provenance["submitted"],
        "finished": provenance["finished"],
        "failed": entry["queries"]["failed"],
        "values": {} if block is None else _values(block["slices"], metrics),
        "cost": {
            "p50_ms": search.get("p50"),
            "p99_ms": search.get("p99"),
            "usd_ingestion": (cost.get("ingestion") or {}).get("usd"),
            "usd_per_1000_queries": (cost.get("searching") or {}).get("usd_per_1000_queries"),
        },
    }


def _values(slices: Mapping[str, Any], metrics: Sequence[str]) -> dict[str, dict[str, Any]]:
    wanted = {"all": metrics} | {str(ability): metrics[:1] for ability in Ability}
    return {
        name: {metric: _cell(slices[name][metric]) for metric in mine if metric in slices[name]}
        for name, mine in wanted.items()
        if name in slices
    }


def _cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    interval = cell.get("interval") or {}
    found = {
        "value": cell["value"],
        "low": interval.get("low"),
        "high": interval.get("high"),
        "random_baseline": cell.get("random_baseline"),
    }
    return {
        "n": cell["n"],
        **{name: in_short(v) for name, v in found.items() if v is not None},
        **{name: cell[name] for name in ("rank", "rank_note", "answered_only") if name in cell},
    }
