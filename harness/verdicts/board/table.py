"""Boards as a person reads them on a terminal."""

from __future__ import annotations

from typing import Any

from harness.records.base import convert
from harness.records.scores import ReturnedStats
from harness.scoring.grid import grid
from harness.scoring.returned import unreached_message
from harness.scoring.uncertainty import counted
from harness.verdicts.board.entries import labels
from harness.verdicts.board.leading import leading


def table(boards: dict[str, Any], style: str = "terminal") -> str:
    """One table a board, best first by its leading metric; ranks are ranges.

    `style`: terminal, or markdown, which leaves parameters out.
    """
    return "\n\n".join(_board(board, style) for board in boards["boards"])


def _board(board: dict[str, Any], style: str) -> str:
    entries = board["entries"]
    cells = [
        (entry, label, _leading(entry))
        for entry, label in zip(entries, labels(entries), strict=True)
    ]
    metrics = list(dict.fromkeys(metric for *_, found in cells for metric in found))
    first = metrics[0] if metrics else ""
    cells.sort(
        key=lambda row: (
            "rank" not in row[2].get(first, {}) and not row[0]["sees_gold_labels"],
            -(row[2].get(first, {}).get("value") or 0),
        )
    )
    lines = [
        [
            _ranks(found.get(first, {}).get("rank")),
            label,
            ", ".join(f"{k}={v}" for k, v in entry["params"].items()) or "-",
            found.get(first, {}).get("n", "-"),
            *(_plain(found.get(metric, {}).get("value")) for metric in metrics),
            _range(found.get(first, {}).get("interval")),
            _lost(entry["queries"], found.get(first, {}).get("answered_only")),
        ]
        for entry, label, found in cells
    ]
    headers = [
        "rank",
        "system",
        "parameters",
        "n",
        *metrics,
        f"95% of {first}",
        "failed, unresolved",
    ]
    if not _whole(board):
        headers.append("documents came")
        for line, (entry, *_) in zip(lines, cells, strict=True):
            line.append(_returned(entry["returned"]))
    costs = [_usd(entry["cost"]) for entry, *_ in cells]
    if any(cost != ("-", "-") for cost in costs):
        headers += ["USD ingestion", "USD/1000 questions"]
        for line, cost in zip(lines, costs, strict=True):
            line += cost
    leading = [(label, found.get(first, {})) for _, label, found in cells]
    beyonds = [
        f"{label}: {said}"
        for entry, label, _ in cells
        if (said := unreached_message(_stats(entry), metrics))
    ]
    foot = "\n".join([*_foot(leading, first), *beyonds])
    if style == "markdown":  # for pages, where parameters would take all the room
        headers.pop(2)
        lines = [[*line[:2], *line[3:]] for line in lines]
        return f"## {title(board)}\n\n{grid(lines, headers, style='pipe')}\n\n{foot}".rstrip()
    drawn = grid(lines, headers, keys=2, most=[None, None, 40])
    return f"{title(board)}\n{drawn}\n{foot}".rstrip()


def title(board: dict[str, Any]) -> str:
    """What a board is about, in one line."""
    d = board["dataset"]
    altered = ", NOT the published files" if d["published_files"] is False else ""
    return (
        f"{d['name']}, {d['granularity']}, {d['text']} text, {d['split']}, data "
        f"{d['fingerprint'][:8]}{altered}; "
        f"{counted(board['queries']['asked'], 'queries')} scored, "
        f"{'' if _whole(board) else 'at most '}{board['depth']} deep"
    )


def _whole(board: dict[str, Any]) -> bool:
    """Whether all rankings are known to hold what was asked for, or the whole haystack."""
    returned = [entry["returned"] for entry in board["entries"]]
    return all(one and not one["shorter"] for one in returned)


def _usd(cost: dict[str, Any]) -> tuple[str, str]:
    """US dollars for taking the haystacks in, and for a thousand questions."""
    ingestion, searching = (cost.get(name) or {} for name in ("ingestion", "searching"))
    values = (ingestion.get("usd"), searching.get("usd_per_1000_queries"))
    first, second = ("-" if value is None else f"{value:.4g}" for value in values)
    return first, second


def _returned(returned: dict[str, Any] | None) -> str:
    return f"{returned['mean']:.1f}, {returned['min']} at least" if returned else "-"


def _stats(entry: dict[str, Any]) -> ReturnedStats | None:
    return convert(entry["returned"], ReturnedStats | None, "a board's entry")  # type: ignore[arg-type]


def _leading(entry: dict[str, Any]) -> dict[str, Any]:
    """The cells over all questions of the metrics that a board is shown by."""
    block, metrics = leading(entry)
    return {} if block is None else {metric: block["slices"]["all"][metric] for metric in metrics}


def _foot(cells: list[tuple[str, dict[str, Any]]], metric: str) -> list[str]:
    """What chance would reach, what a rank says, and why a system has none."""
    lines = []
    if (chance := cells[0][1].get("random_baseline")) is not None:
        lines.append(f"chance of {metric}: {chance:.4f}")
    ranked = [cell for _, cell in cells if "rank" in cell]
    if len(ranked) > 1:
        said = ranked[0].get("rank_note")
        made = ranked[0]["interval"]
        by = f"paired, over {counted(made['clusters'], made['cluster_by'])}"
        held = "hold all true ranks at once in 95%, if equal systems win by as much as they lose"
        lines.append(f"rank: {said or f'the ranges {held}; {by}'}")
    for system, cell in cells:
        if "rank" not in cell and "rank_note" in cell:
            lines.append(f"no rank: {system} {cell['rank_note']}")
    return lines


def _ranks(ranks: list[int] | None) -> str:
    if ranks is None:
        return "-"
    best, worst = ranks
    return str(best) if best == worst else f"{best}-{worst}"


def _lost(queries: dict[str, int], answered: dict[str, Any] | None) -> str:
    """Queries that failed, which count 0, with the mean over the others; and queries in no mean, as
    their texts were not resolved."""
    said = [f"{queries['failed']} failed"] if queries["failed"] else []
    if answered:
        said.append(f"answered only: {_plain(answered['value'])} ({answered['n']})")
    if queries["unmeasurable"]:
        said.append(f"{queries['unmeasurable']} unresolved")
    return ", ".join(said) or "-"


def _range(interval: dict[str, Any] | None) -> str:
    return "-" if interval is None else f"{interval['low']:.4f}-{interval['high']:.4f}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
