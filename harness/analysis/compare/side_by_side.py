"""Compares two runs query by query: wins of each, and both rankings with the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.analysis.scored_run import Block, ScoredRun, require_depth
from harness.datasets.reader import Dataset
from harness.errors import UsageError, suggest
from harness.io.terminal import grid
from harness.runs.folder.rankings import read_run_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.stats.paired import outcomes


@dataclass(frozen=True)
class QueryDifference:
    """One query's value in two runs; `difference` is b - a."""

    query: str
    ability: str
    category: str
    a: float
    b: float
    difference: float


@dataclass(frozen=True)
class WinTieLoss:
    """Queries that run `b` won (largest difference first), lost (largest loss first) and tied.

    `b` is the new run, so wins are improvements. `unpaired` are the ids with a value in one run
    only.
    """

    wins: tuple[QueryDifference, ...]
    losses: tuple[QueryDifference, ...]
    ties: tuple[QueryDifference, ...]
    unpaired: tuple[str, ...]


def win_tie_loss(a: Path, b: Path, block: Block, metric: str) -> WinTieLoss:
    """Compare two run folders query by query in one metric of one protocol.

    Raises UsageError for a protocol or metric that one lacks, for a metric that their depths could
    change, and for different queries.
    """
    runs = [ScoredRun.read(folder) for folder in (a, b)]
    for run in runs:
        if block not in run.blocks:
            names = [" ".join(known) for known in run.blocks]
            raise UsageError(f"{run.folder}: no protocol {' '.join(block)!r}; it has {names}")
        metrics = list(run.blocks[block].overall)
        if metric not in metrics:
            raise UsageError(f"{run.folder}: no metric {metric!r}{suggest(metric, metrics)}")
    if runs[0].asked != runs[1].asked and runs[0].scorable != runs[1].scorable:
        raise UsageError(f"{a} and {b}: were asked other queries")
    require_depth(runs, block, metric)
    rows = runs[0].rows(block)
    first, second = rows.values(metric), runs[1].rows(block).values(metric, rows.queries)
    outcome = outcomes(first, second)[:, 0]
    abilities, categories = rows.names("ability"), rows.names("category")

    def of(sign: int) -> tuple[QueryDifference, ...]:
        found = [
            QueryDifference(
                rows.queries[at],
                str(abilities[at]),
                str(categories[at]),
                float(first[at]),
                float(second[at]),
                float(second[at] - first[at]) if sign else 0.0,
            )
            for at in np.flatnonzero(outcome == sign)
        ]
        return tuple(sorted(found, key=lambda q: (-abs(q.difference), q.query)))

    alone = np.flatnonzero(np.isnan(first) != np.isnan(second))
    return WinTieLoss(of(1), of(-1), of(0), tuple(rows.queries[at] for at in alone))


@dataclass(frozen=True)
class GoldDocument:
    """A relevant document, and its rank in each run (None: not returned)."""

    document: str
    grade: int
    ranks: tuple[int | None, int | None]


@dataclass(frozen=True)
class SideBySide:
    """One query: its difference, its evidence, and the top of both rankings.

    `rankings` are ids, best first; `relevant` are those of them that are evidence. Contains no text
    of the dataset.
    """

    difference: QueryDifference
    evidence: tuple[GoldDocument, ...]
    rankings: tuple[tuple[str, ...], tuple[str, ...]]
    relevant: frozenset[str]


def side_by_side(
    dataset: Dataset,
    folders: tuple[Path, Path],
    queries: Sequence[QueryDifference],
    k: int = 10,
) -> list[SideBySide]:
    """Compare two runs on this dataset query by query, with rankings down to rank k.

    Evidence is that of the dataset's default qrels, with ranks in the complete rankings.
    """
    wanted = [one.query for one in queries]
    found = [_rankings(folder, set(wanted)) for folder in folders]
    place = dataset.query_rows
    judged = dataset.qrels()
    result = []
    for one in queries:
        mine = np.flatnonzero((judged.query == place[one.query]) & (judged.grade >= 1))
        ids = judged.document_id.take(pa.array(mine)).to_pylist()
        grades = judged.grade[mine].tolist()
        rankings = [ranked.get(one.query, []) for ranked in found]
        ranks = [{id_: rank for rank, id_ in enumerate(ranked, 1)} for ranked in rankings]
        result.append(
            SideBySide(
                one,
                tuple(
                    GoldDocument(id_, grade, (ranks[0].get(id_), ranks[1].get(id_)))
                    for id_, grade in zip(ids, grades, strict=True)
                ),
                (tuple(rankings[0][:k]), tuple(rankings[1][:k])),
                frozenset(ids),
            )
        )
    return result


def _rankings(folder: Path, wanted: set[str]) -> dict[str, list[str]]:
    rankings = read_run_rankings(RunFolder(folder).rankings)
    starts = rankings.starts
    return {
        query: rankings.document.slice(starts[i], starts[i + 1] - starts[i]).to_pylist()
        for i, query in enumerate(rankings.query_ids)
        if query in wanted
    }


def render_queries(found: Sequence[SideBySide], dataset: Dataset | None, width: int = 88) -> str:
    """Formats queries as text; with `dataset` also their texts, cut to `width`."""
    return "\n\n".join(_query(one, dataset, width) for one in found)


def _query(one: SideBySide, dataset: Dataset | None, width: int) -> str:
    d = one.difference
    head = (
        f"{d.query} ({d.category or d.ability}): A {d.a:.4f}, B {d.b:.4f}, B - A {d.b - d.a:+.4f}"
    )
    lines = [head]
    texts: dict[str, str] = {}
    if dataset is not None:
        row = dataset.query_ids.index(d.query)
        lines.append(f"  {_cut(dataset.query(row).text, width)}")
        shown = {e.document for e in one.evidence}
        texts = _texts(dataset, int(dataset.query_haystack[row]), shown)
    for evidence in one.evidence:
        ranks = ", ".join(
            f"{letter} {'not found' if rank is None else f'rank {rank}'}"
            for letter, rank in zip("AB", evidence.ranks, strict=True)
        )
        lines.append(f"  evidence {evidence.document}: {ranks}")
        if evidence.document in texts:
            lines.append(f"    {_cut(texts[evidence.document], width)}")
    depth = max(map(len, one.rankings))
    rows = [
        [
            rank + 1,
            *(
                f"{'* ' if ranked[rank] in one.relevant else '  '}{ranked[rank]}"
                if rank < len(ranked)
                else ""
                for ranked in one.rankings
            ),
        ]
        for rank in range(depth)
    ]
    table = grid(rows, ["rank", "A", "B"], width=width + 10)
    return "\n".join([*lines, *(f"  {line}" for line in table.splitlines())])


def _texts(dataset: Dataset, haystack: int, ids: set[str]) -> dict[str, str]:
    rows = {id_: row for id_, row in dataset.rows_by_id(haystack).items() if id_ in ids}
    contents = dataset.documents.contents(np.array(list(rows.values()), np.int32))
    return dict(zip(rows, contents, strict=True))


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
