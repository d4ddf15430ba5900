"""Summarizes boards for leaderboard.json, which names the files that hold the rest.

An entry has the headline metrics of its board over all queries, and the first of them by ability.
All other results, costs and provenance are in the file of the board, and every two of its systems,
query by query, in the file of its pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.analysis.board.entries import board_headline, distinct_params, headline, labels
from harness.analysis.board.records import (
    BOARD_VERSION,
    Board,
    BoardProtocol,
    Entry,
    Leaderboard,
    RankedResult,
    ShortBoard,
    ShortCost,
    ShortEntry,
    ShortResult,
)
from harness.io.records import encode
from harness.records.run import Params
from harness.records.scores import MetricResult
from harness.schema import Ability
from harness.scoring.protocols import digest
from harness.scoring.results import counted


def six_digits(value: float | None) -> float | None:
    """Rounds to six significant digits: what a person reads of a mean, and no small value is 0."""
    return None if value is None else float(f"{value:.6g}")


def short_result(result: MetricResult) -> ShortResult:
    """Shortens a result; `RankedResult` has a rank too."""
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
    altered = ", NOT the published files" if d.published_files is False else ""
    return (
        f"{d.name}, {d.granularity}, {d.text} text, {d.split}, data {d.fingerprint[:8]}{altered}; "
        f"{counted(board.queries.n, 'queries')} scored, "
        f"{'' if is_complete(board) else 'at most '}{board.depth} deep"
    )


def board_id(board: Board) -> str:
    """Returns the name of a board, which is the same while what compares on it is the same."""
    d = board.dataset
    words = f"{d.name}-{d.granularity}-{d.split}".lower()
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in words)
    essentials = encode((d, board.depth, board.queries, board.scoring)).decode()
    return f"{plain[:60].strip('-')}-{digest([essentials])}"


def summarize(boards: Sequence[Board], folder: str, paired: Collection[str] = ()) -> Leaderboard:
    """Returns leaderboard.json; `folder` is where the other files are, as seen from it.

    `paired` are the ids of the boards that have a file of pairs.
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
