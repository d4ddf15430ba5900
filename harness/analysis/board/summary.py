"""Summarizes boards for leaderboard.json, which names the files with the rest.

An entry has the headline metrics of its board over all queries, and the first of them by ability.
All other results, costs and provenance are in the file of the board, and comparisons of its systems
in the file of its pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from harness.analysis.board.entries import distinct_params, labels
from harness.analysis.board.records import (
    BOARD_VERSION,
    Board,
    BoardProtocol,
    Entry,
    EntryCost,
    EntryQueries,
    Leaderboard,
    RankedResult,
    ShortBoard,
    ShortCost,
    ShortEntry,
    ShortResult,
    board_headline,
    headline,
)
from harness.io.records import encode
from harness.io.terminal import count_of, digits, grid
from harness.records.run import Params
from harness.records.scores import AnsweredOnly, Interval, MetricResult, ReturnedStats
from harness.runs.usage import format_usd
from harness.schema import Ability
from harness.scoring.scores import dataset_labels, unreached_message
from harness.scoring.signatures import digest


def six_digits(value: float | None) -> float | None:
    """Rounds to six significant digits, so that no small value is 0."""
    return None if value is None else float(f"{value:.6g}")


def short_result(result: MetricResult) -> ShortResult:
    """Shortens a result, with its rank if it has one."""
    interval = result.interval
    ranked = result if isinstance(result, RankedResult) else None
    return ShortResult(
        n=result.n,
        value=six_digits(result.value),
        low=six_digits(interval.low) if interval else None,
        high=six_digits(interval.high) if interval else None,
        random_baseline=six_digits(result.random_baseline),
        rank=ranked.rank if ranked else None,
        rank_note=ranked.rank_note if ranked else "",
        answered_only=result.answered_only,
    )


def is_complete(board: Board) -> bool:
    """Tests whether every ranking holds as many documents as requested, or its whole haystack."""
    returned = [entry.returned for entry in board.entries]
    return all(one is not None and not one.shorter for one in returned)


def title(board: Board) -> str:
    """Describes a board in one line."""
    d = board.dataset
    altered = "  (NOT the published files)" if d.published_files is False else ""
    return (
        f"dataset={d.name}  {dataset_labels(d)}  scored={board.queries.n}  k={board.depth}  "
        f"data={d.fingerprint[:8]}{altered}"
    )


def board_id(board: Board) -> str:
    """Returns the name of a board, which depends only on its settings."""
    d = board.dataset
    words = f"{d.name}-{d.granularity}-{d.split}".lower()
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in words)
    essentials = encode((d, board.depth, board.queries, board.scoring)).decode()
    return f"{plain[:60].strip('-')}-{digest([essentials])}"


def summarize(boards: Sequence[Board], folder: str, paired: Collection[str] = ()) -> Leaderboard:
    """Returns leaderboard.json; `folder` is the relative path of the other files.

    `paired` are the ids of the boards with a file of pairs.
    """
    return Leaderboard(
        schema_version=BOARD_VERSION, boards=[_board(board, folder, paired) for board in boards]
    )


def _board(board: Board, folder: str, paired: Collection[str]) -> ShortBoard:
    name = board_id(board)
    entries = board.entries
    protocol, metrics = board_headline(entries)
    shown = zip(entries, labels(entries), distinct_params(entries), strict=True)
    return ShortBoard(
        id=name,
        title=title(board),
        file=f"{folder}/{name}.json",
        pairs=f"{folder}/{name}.pairs.json" if name in paired else None,
        dataset=board.dataset,
        depth=board.depth,
        queries=board.queries,
        scoring=board.scoring,
        protocol=protocol.key if protocol else None,
        metrics=metrics,
        answers=board.answers,
        claims=board.claims,
        entries=[_entry(entry, label, params) for entry, label, params in shown],
    )


def _entry(entry: Entry, label: str, params: Params) -> ShortEntry:
    protocol, metrics = headline(entry)
    cost, provenance = entry.cost, entry.provenance
    return ShortEntry(
        run=entry.run,
        label=label,
        system=entry.system,
        version=entry.version,
        distinct_params=params,
        submitted_by=entry.submitted_by,
        sees_gold_labels=entry.sees_gold_labels,
        submitted=provenance.submitted,
        finished=provenance.finished,
        failed=entry.queries.failed,
        values=_values(protocol, metrics) if protocol else {},
        cost=ShortCost(
            p50_ms=cost.search_ms.p50 if cost.search_ms else None,
            p99_ms=cost.search_ms.p99 if cost.search_ms else None,
            usd_ingestion=cost.ingestion.usd if cost.ingestion else None,
            usd_per_1000_queries=cost.searching.usd_per_1000_queries if cost.searching else None,
        ),
    )


def _values(protocol: BoardProtocol, metrics: Sequence[str]) -> dict[str, dict[str, ShortResult]]:
    wanted = {"all": metrics} | {str(ability): metrics[:1] for ability in Ability}
    return {
        name: {m: short_result(found[m]) for m in mine if m in found}
        for name, mine in wanted.items()
        if (found := protocol.slices.get(name)) is not None
    }


# -- Boards as tables on a terminal ----------------------------------------------------------------


Row = tuple[Entry, str, dict[str, RankedResult]]
"""An entry, its label, and its results over all queries of the headline metrics."""


def table(boards: Iterable[Board], style: str = "terminal") -> str:
    """Draws one table per board, best first by its headline metric; ranks are ranges.

    `style`: terminal, or markdown, which has no parameters.
    """
    return "\n\n".join(_drawn(board, style) for board in boards)


def _drawn(board: Board, style: str) -> str:
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
    if style == "markdown":  # for pages, which have no room for parameters
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
    first, second = ("-" if usd is None else format_usd(usd) for usd in (ingestion, searching))
    return first, second


def _returned(returned: ReturnedStats | None) -> str:
    return f"{returned.mean:.1f}, min {returned.min}" if returned else "-"


def _foot(rows: Sequence[Row], metric: str) -> list[str]:
    """Describes the random baseline, ranks, and why a system has none."""
    lines = []
    results = [(label, found[metric]) for _, label, found in rows if metric in found]
    if results and (baseline := results[0][1].random_baseline) is not None:
        lines.append(f"random baseline of {metric}: {baseline:.4f}")
    ranked = [result for _, result in results if result.rank is not None]
    if len(ranked) > 1 and (interval := ranked[0].interval) is not None:
        by = f"paired, over {count_of(interval.clusters, interval.cluster_by)}"
        ranges = f"simultaneous 95% ranges of the true ranks; {by}"
        lines.append(f"rank: {ranked[0].rank_note or ranges}")
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
    """Counts failed queries, with the mean over the others, and queries with unresolved texts."""
    parts = [f"{queries.failed} failed"] if queries.failed else []
    if answered:
        parts.append(f"answered only: {digits(answered.value)} ({answered.n})")
    if queries.unmeasurable:
        parts.append(f"{queries.unmeasurable} unresolved")
    return ", ".join(parts) or "-"


def _range(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.4f}-{interval.high:.4f}"
