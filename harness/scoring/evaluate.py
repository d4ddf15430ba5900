"""Metrics of a run against qrels, without a dataset: trec_eval's job, from files, dictionaries or
frames.

A TREC run file is read and ranked in blocks of whole queries, so that memory stays small; what is
kept of a block is the places of its judged documents.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import UsageError, near, require_ids
from harness.runfiles.pairs import RankedPairs
from harness.runfiles.rankings import (
    Rankings,
    Run,
    best_first,
    is_trec,
    map_trec,
    read_rankings,
    without,
)
from harness.runfiles.tables import Frame, is_frame
from harness.scoring.arrays import Values, mean
from harness.scoring.metrics import parse_metrics
from harness.scoring.qrels import Qrels, QrelsDict, from_dict, read_qrels
from harness.scoring.ranks import QrelsIndex, Ranked, Ranks, Ties, rank_dicts


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The metrics of a run: `evaluation["ndcg@10"]` is a mean, NaN where it is over no query.

    `means` and `per_query` have the metrics' names as keys; arrays have shape (n,) and align with
    `query_ids`, the judged queries that count. A mean over no query is None. `missing_queries`: how
    many judged queries the run does not have; `unknown_queries`: how many of the run's queries have
    no judgement; `repeated_documents`: how many documents stood in their ranking already and were
    left out.
    """

    means: dict[str, float | None]
    per_query: dict[str, Values]
    query_ids: list[str]
    n: int
    missing_queries: int
    unknown_queries: int
    repeated_documents: int

    def __getitem__(self, metric: str) -> float:
        """A mean. Raises UsageError, with the near names, for a metric that was not asked for."""
        if metric not in self.means:
            raise UsageError(f"no metric {metric!r} here{near(metric, list(self.means))}")
        value = self.means[metric]
        return math.nan if value is None else value

    def __repr__(self) -> str:
        """Means and n; not the queries."""
        shown = "  ".join(
            f"{name} {'-' if value is None else f'{value:.4f}'}"
            for name, value in self.means.items()
        )
        return f"<Evaluation, n {self.n}: {shown}>"


def evaluate(
    qrels: str | Path | QrelsDict | Frame,
    run: str | Path | Run | Frame | Rankings,
    metrics: str | Sequence[str],
    *,
    ties: Ties = Ties.TREC,
    missing: str = "zero",
) -> Evaluation:
    """Evaluate `run` on `qrels`: files, `{query: {document: number}}`, or frames of pandas, polars,
    Arrow or Hugging Face with columns as query_id, doc_id and score or grade.

    `metrics` are texts as `Metric.parse` reads them, in a list or with commas. A query with nothing
    relevant counts 0, as in trec_eval. `missing` says what a judged query counts that the run does
    not have, or has None for: `zero` (trec_eval -c), or `skip` (left out, as pytrec_eval does). A
    document that stands twice in a ranking counts where it stands first.

    Raises UsageError for what cannot be read, dictionaries of another form, ids that are no text
    (1 and "1" are not the same), scores that are NaN or that `float` does not read, grades that are
    no whole number, and unknown metrics, `ties` and `missing`.
    """
    if missing not in ("zero", "skip"):
        raise UsageError(f"missing must be zero or skip, not {missing!r}")
    if ties not in list(Ties):
        raise UsageError(f"unknown tie rule {ties!r}; known: {', '.join(Ties)}")
    for what, given, kinds in (
        ("judgements", qrels, (Mapping, str, os.PathLike)),
        ("run", run, (Mapping, str, os.PathLike, Rankings)),
    ):
        if not isinstance(given, kinds) and not is_frame(given):
            raise UsageError(
                f"the {what} must be a file or {{query: {{document: number}}}}, or a frame, not "
                f"{given!r:.60}"
            )
    if not isinstance(metrics, Iterable):
        raise UsageError(f"metrics must be texts, as in 'ndcg@10,map', not {metrics!r:.60}")
    wanted = parse_metrics(metrics if isinstance(metrics, str) else list(metrics))
    judged = from_dict(qrels) if isinstance(qrels, Mapping) else read_qrels(qrels)
    ranked, unknown, repeated = _ranked(judged, run, Ties(ties))
    counted = ranked.answered if missing == "skip" else np.ones(ranked.n, bool)
    per_query = {str(m): np.nan_to_num(m(ranked))[counted] for m in wanted}
    return Evaluation(
        {name: mean(values) for name, values in per_query.items()},
        per_query,
        [judged.query_ids[i] for i in np.flatnonzero(counted).tolist()],
        int(counted.sum()),
        int((~ranked.answered).sum()),
        unknown,
        repeated,
    )


def _ranked(
    qrels: Qrels, run: str | Path | Run | Frame | Rankings, ties: Ties
) -> tuple[Ranked, int, int]:
    """Places of the judged documents, and how many queries are unknown and documents repeated."""
    if isinstance(run, Mapping):
        return _of_dicts(qrels, run, ties)
    judged = QrelsIndex(qrels)
    parts = None
    if isinstance(run, str | os.PathLike) and is_trec(Path(run)):
        parts = _by_block(judged, Path(run), ties)
    if parts is None:
        parts = [_part(judged, read_rankings(run), ties)]
    ranked = judged.gather(part.places for part in parts)
    unknown = sum(len(part.query_ids) for part in parts) - int(ranked.answered.sum())
    return ranked, unknown, sum(part.repeated for part in parts)


@dataclass(frozen=True)
class _Part:
    """What is kept of some rankings."""

    query_ids: list[str]
    places: Ranks
    repeated: int


def _part(judged: QrelsIndex, rankings: Rankings, ties: Ties) -> _Part:
    rankings = best_first(rankings)
    pairs = RankedPairs(rankings.query, rankings.document)
    again = pairs.repeated()
    if len(again):
        rankings = without(rankings, again)
        pairs = RankedPairs(rankings.query, rankings.document)
    return _Part(rankings.query_ids, judged.places(rankings, pairs, ties), len(again))


def _by_block(judged: QrelsIndex, path: Path, ties: Ties) -> list[_Part] | None:
    """The parts of a TREC run file; None where it must be read whole: a query's lines stand apart,
    or a score is NaN."""

    def work(rankings: Rankings) -> _Part | None:
        if rankings.score is None or np.isnan(rankings.score).any():
            return None
        return _part(judged, rankings, ties)

    seen: set[str] = set()
    parts = []
    for part in map_trec(path, work):
        if part is None or not seen.isdisjoint(part.query_ids):
            return None
        seen.update(part.query_ids)
        parts.append(part)
    return parts


def _of_dicts(qrels: Qrels, run: Run, ties: Ties) -> tuple[Ranked, int, int]:
    documents = iter(qrels.document.to_pylist())
    sizes = np.bincount(qrels.query, minlength=qrels.n).tolist()
    judged = {
        query: {next(documents): 1 for _ in range(size)}
        for query, size in zip(qrels.query_ids, sizes, strict=True)
    }
    require_ids(run, "the run's query")
    ranked = rank_dicts(run, judged, qrels, ties)
    return ranked, len(run) - int(ranked.answered.sum()), 0
