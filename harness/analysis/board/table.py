"""Boards as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.analysis.board.entries import headline, labels
from harness.analysis.board.records import Board, Entry, EntryCost, EntryQueries, RankedResult
from harness.analysis.board.summary import is_complete, title
from harness.records.scores import AnsweredOnly, Interval, ReturnedStats
from harness.scoring.grid import digits, grid
from harness.scoring.results import counted
from harness.scoring.scores import unreached_message

Row = tuple[Entry, str, dict[str, RankedResult]]
"""An entry, its label, and its results over all queries of the headline metrics."""


def table(boards: Iterable[Board], style: str = "terminal") -> str:
    """Draws one table a board, best first by its headline metric; ranks are ranges.

    `style`: terminal, or markdown, which leaves parameters out.
    """
    return "\n\n".join(_board(board, style) for board in boards)


def _board(board: Board, style: str) -> str:
    rows = [
        (entry, label, _headline_results(entry))
        for entry, label in zip(board.entries, labels(board.entries), strict=True)
    ]
    metrics = list(dict.fromkeys(metric for *_, found in rows for metric in found))
    first = metrics[0] if metrics else ""
    rows.sort(key=lambda row: _order(row, first))
    lines = [[*_start(row, first), *_results(row, metrics)] for row in rows]
    headers = [
        "rank",
        "system",
        "parameters",
        "n",
        *metrics,
        f"95% of {first}",
        "failed, unresolved",
    ]
    if not is_complete(board):
        headers.append("documents returned")
        for line, (entry, *_) in zip(lines, rows, strict=True):
            line.append(_returned(entry.returned))
    costs = [_usd(entry.cost) for entry, *_ in rows]
    if any(cost != ("-", "-") for cost in costs):
        headers += ["USD ingestion", "USD/1000 queries"]
        for line, cost in zip(lines, costs, strict=True):
            line += cost
    notes = [
        f"{label}: {message}"
        for entry, label, _ in rows
        if (message := unreached_message(entry.returned, metrics))
    ]
    foot = "\n".join([*_foot(rows, first), *notes])
    if style == "markdown":  # for pages, where parameters would take all the room
        headers.pop(2)
        lines = [[*line[:2], *line[3:]] for line in lines]
        return f"## {title(board)}\n\n{grid(lines, headers, style='pipe')}\n\n{foot}".rstrip()
    drawn = grid(lines, headers, keys=2, most=[None, None, 40])
    return f"{title(board)}\n{drawn}\n{foot}".rstrip()


def _headline_results(entry: Entry) -> dict[str, RankedResult]:
    protocol, metrics = headline(entry)
    return {metric: protocol.overall[metric] for metric in metrics} if protocol else {}


def _order(row: Row, first: str) -> tuple[bool, float]:
    """Sorts by value; entries without a rank come last, unless they saw the gold labels."""
    entry, _, found = row
    result = found.get(first)
    ranked = result is not None and result.rank is not None
    return not ranked and not entry.sees_gold_labels, -((result and result.value) or 0)


def _start(row: Row, first: str) -> list[object]:
    entry, label, found = row
    result = found.get(first)
    params = ", ".join(f"{name}={value}" for name, value in entry.params.items())
    return [
        _rank(result.rank if result else None),
        label,
        params or "-",
        result.n if result else "-",
    ]


def _results(row: Row, metrics: Sequence[str]) -> list[object]:
    entry, _, found = row
    values = [digits(found[metric].value) if metric in found else "-" for metric in metrics]
    first = found.get(metrics[0]) if metrics else None
    interval, answered_only = (first.interval, first.answered_only) if first else (None, None)
    return [*values, _range(interval), _failed(entry.queries, answered_only)]


def _usd(cost: EntryCost) -> tuple[str, str]:
    """Formats US dollars of ingestion, and of a thousand queries."""
    ingestion = cost.ingestion.usd if cost.ingestion else None
    searching = cost.searching.usd_per_1000_queries if cost.searching else None
    first, second = ("-" if usd is None else f"{usd:.4g}" for usd in (ingestion, searching))
    return first, second


def _returned(returned: ReturnedStats | None) -> str:
    return f"{returned.mean:.1f}, {returned.min} at least" if returned else "-"


def _foot(rows: Sequence[Row], metric: str) -> list[str]:
    """Describes the random baseline, what a rank means, and why a system has none."""
    lines = []
    results = [(label, found[metric]) for _, label, found in rows if metric in found]
    if results and (baseline := results[0][1].random_baseline) is not None:
        lines.append(f"random baseline of {metric}: {baseline:.4f}")
    ranked = [result for _, result in results if result.rank is not None]
    if len(ranked) > 1 and (interval := ranked[0].interval) is not None:
        by = f"paired, over {counted(interval.clusters, interval.cluster_by)}"
        held = "hold all true ranks at once in 95%, if equal systems win by as much as they lose"
        lines.append(f"rank: {ranked[0].rank_note or f'the ranges {held}; {by}'}")
    return lines + [
        f"no rank: {label} {result.rank_note}"
        for label, result in results
        if result.rank is None and result.rank_note
    ]


def _rank(rank: tuple[int, int] | None) -> str:
    if rank is None:
        return "-"
    best, worst = rank
    return str(best) if best == worst else f"{best}-{worst}"


def _failed(queries: EntryQueries, answered: AnsweredOnly | None) -> str:
    """Counts failed queries, with the mean over the others, and queries whose texts were not
    resolved, which are in no mean."""
    parts = [f"{queries.failed} failed"] if queries.failed else []
    if answered:
        parts.append(f"answered only: {digits(answered.value)} ({answered.n})")
    if queries.unmeasurable:
        parts.append(f"{queries.unmeasurable} unresolved")
    return ", ".join(parts) or "-"


def _range(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.4f}-{interval.high:.4f}"
