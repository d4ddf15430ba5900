"""leaderboard.json from run folders: the same folders give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import disk_errors, read_json, write_json
from harness.results.folder import RunFolder
from harness.scoring.score import SCORE_VERSION

SCHEMA_VERSION = 1


def build(results: Path) -> dict[str, Any]:
    """One row a run folder below `results` that has been scored.

    A row holds the system with version and parameters, the dataset with its fingerprint, and for
    every protocol, slice and metric: value, n, chance, ceiling. Rows are sorted by what compares
    (dataset, fingerprint, granularity, text, split, depth), then system and folder. Raises
    UsageError when the folder is missing, holds no run, or holds a broken one.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    rows = [_row(folder) for folder in _runs(results) if (folder / "scores.json").is_file()]
    if not rows:
        raise UsageError(f"{results}: holds no scored run; `harness run` makes one")
    rows.sort(key=_order)
    return {"schema_version": SCHEMA_VERSION, "rows": rows}


def write_board(results: Path, out: Path) -> dict[str, Any]:
    """Build the board of the runs below `results` and write it to `out`; returns it.

    Raises UsageError as `build` does, and where `out` cannot be written.
    """
    board = build(results)
    with disk_errors(out.parent, "name another file with --out"):
        write_json(out, board)
    return board


def unscored(results: Path) -> list[str]:
    """Names of the run folders that have no scores, and are not on the board for that."""
    return [folder.name for folder in _runs(results) if not (folder / "scores.json").is_file()]


def _runs(results: Path) -> list[Path]:
    """Run folders, by name; hidden ones are not finished."""
    found = (path.parent for path in results.glob("*/run.json"))
    return sorted(folder for folder in found if not folder.name.startswith("."))


def _row(folder: Path) -> dict[str, Any]:
    run, scores = RunFolder(folder).record, read_json(folder / "scores.json")
    try:
        if scores["score_version"] != SCORE_VERSION:
            raise KeyError(f"score_version {scores['score_version']}")
        return _columns(folder, run, scores)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{folder}: scores.json or run.json is not of this version of the harness ({error}); "
            "`harness score` the folder again, or remove it"
        ) from None


def _columns(folder: Path, run: dict[str, Any], scores: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": folder.name,
        "system": run["retriever"]["name"],
        "version": run["retriever"].get("version"),
        "params": run["retriever"].get("params", {}),
        "sees_answer_key": run["retriever"].get("sees_answer_key", False),
        "dataset": scores["dataset"],
        "depth": scores["depth"],
        "queries": scores["queries"],
        "protocols": [
            {
                "protocol": f"{block['protocol']}/{block['version']}",
                "unit": block["unit"],
                "ties": block["ties"],
                "slices": {
                    name: {
                        metric: {k: v for k, v in cell.items() if k != "signature"}
                        for metric, cell in part["metrics"].items()
                    }
                    for name, part in block["slices"].items()
                },
            }
            for block in scores["protocols"]
        ],
        "knowledge_update": scores["knowledge_update"],
        "abstention": scores["abstention"],
        "tokens": scores["tokens"],
        "hits": scores.get("hits"),
        "measured": {
            name: run["measured"][name]
            for name in ("index", "ingestion")
            if name in (run.get("measured") or {})
        },
        "search_ms": (run.get("measured") or {}).get("search_ms"),
        "harness": scores["harness"],
        "git": run.get("git"),
        "finished": run["finished"],
    }


def _order(row: dict[str, Any]) -> tuple[str, ...]:
    d = row["dataset"]
    group = (d["name"], d["fingerprint"], d["granularity"], d["text"], d["split"])
    return (*group, f"{row['depth']:09}", row["system"], row["run"])


def table(board: dict[str, Any]) -> str:
    """One table for each group of runs that compare, best first by its leading metric."""
    from tabulate import tabulate

    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in board["rows"]:
        d, q = row["dataset"], row["queries"]
        altered = d["published_files"] is False
        data = d["fingerprint"][:8] + (", NOT the published files" if altered else "")
        key = (d["name"], d["granularity"], d["text"], d["split"], data, q["asked"])
        groups.setdefault(key, []).append(row)
    parts = []
    for (name, unit, text, split, data, asked), rows in groups.items():
        cells = [(row, _leading(row)) for row in rows]
        metrics = list(dict.fromkeys(m for _, found in cells for m in found))
        first = metrics[0] if metrics else ""
        cells.sort(key=lambda pair: -(pair[1].get(first, {}).get("value") or 0))
        lines = [
            [
                row["system"],
                ", ".join(f"{k}={v}" for k, v in row["params"].items()) or "-",
                found.get(first, {}).get("n", "-"),
                *(_plain(found.get(m, {}).get("value")) for m in metrics),
                row["queries"]["failed"],
            ]
            for row, found in cells
        ]
        headers = ["system", "parameters", "n", *metrics, "failed"]
        title = f"{name}, {unit}, {text} text, {split}, data {data}; {asked} queries asked"
        grid = tabulate(lines, headers, maxcolwidths=[None, 48], disable_numparse=True)
        parts.append(f"{title}\n{grid}")
    return "\n\n".join(parts)


def _leading(row: dict[str, Any]) -> dict[str, Any]:
    """The metrics that a group is shown by: memory's where there are several abilities."""
    wanted = {
        "memory": ("recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
        "trec": ("ndcg@10", "mrr@10", "recall@100", "map@100"),
    }
    blocks = {b["protocol"].partition("/")[0]: b for b in reversed(row["protocols"])}
    several = len(blocks.get("memory", {}).get("slices", {})) > 3
    for name in ("memory", "trec") if several else ("trec", "memory"):
        cells = blocks.get(name, {}).get("slices", {}).get("all", {})
        if cells:
            return {metric: cells[metric] for metric in wanted[name] if metric in cells}
    return {}


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
