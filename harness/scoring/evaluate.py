"""Evaluates a run on qrels, like trec_eval, from files, dictionaries or frames.

A TREC run file is processed in blocks of whole queries to save memory; only the ranks of the judged
documents of a block are kept.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError, require_ids, suggest
from harness.runfiles.rankings import Rankings, Run, best_first, without
from harness.runfiles.readers import is_trec, map_trec, read_rankings
from harness.runfiles.tables import (
    Frame,
    is_frame,
)
from harness.scoring.arrays import Values, mean
from harness.scoring.metrics import parse_metrics
from harness.scoring.qrels import from_dict, read_qrels
from harness.scoring.ranks import (
    NOT_RETRIEVED,
    Qrels,
    QrelsDict,
    QrelsIndex,
    Ranked,
    Ranks,
    Ties,
    gather_ranks,
)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The metrics of a run: `evaluation["ndcg@10"]` is a mean, NaN if it is over no query.

    `means` and `per_query` have the metrics' names as keys; arrays have shape (n,) and align with
    `query_ids`, the counted judged queries. In `means`, a mean over no query is None.
    `missing_queries`: number of judged queries not in the run; `unknown_queries`: number of the
    run's queries without qrels; `repeated_documents`: number of duplicates removed from rankings.
    """

    means: dict[str, float | None]
    per_query: dict[str, Values]
    query_ids: list[str]
    n: int
    missing_queries: int
    unknown_queries: int
    repeated_documents: int

    def __getitem__(self, metric: str) -> float:
        """Returns a mean. Raises UsageError, with similar names, for an unknown metric."""
        if metric not in self.means:
            raise UsageError(f"no metric {metric!r} here{suggest(metric, list(self.means))}")
        value = self.means[metric]
        return math.nan if value is None else value

    def __repr__(self) -> str:
        """Means and n only."""
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
    """Evaluates `run` on `qrels`: files, `{query: {document: number}}`, or frames of pandas,
    polars, Arrow or Hugging Face with columns such as query_id, doc_id and score or grade.

    `metrics` are names for `Metric.parse`, in a list or separated by commas. A query without
    relevant documents counts 0, as in trec_eval. `missing`: judged queries whose ranking is missing
    or None count 0 (`zero`, as trec_eval -c) or are excluded (`skip`, as in pytrec_eval). The first
    occurrence of a duplicate document in a ranking counts.

    Raises UsageError for unreadable files, dictionaries of another form, ids that are not text (1
    and "1" are different), scores that are NaN or not accepted by `float`, grades that are not
    whole numbers, and unknown metrics, `ties` and `missing`.
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
    """Returns ranks of judged documents, and numbers of unknown queries and repeated documents."""
    if isinstance(run, Mapping):
        return _of_dicts(qrels, run, ties)
    judged = QrelsIndex(qrels)
    parts = None
    if isinstance(run, str | os.PathLike) and is_trec(Path(run)):
        parts = _by_block(judged, Path(run), ties)
    if parts is None:
        parts = [_part(judged, read_rankings(run), ties)]
    ranked = gather_ranks(qrels, (part.places for part in parts))
    unknown = sum(len(part.query_ids) for part in parts) - int(ranked.answered.sum())
    return ranked, unknown, sum(part.repeated for part in parts)


@dataclass(frozen=True)
class _Part:
    """Results of a part of the rankings."""

    query_ids: list[str]
    places: Ranks
    repeated: int


def _part(judged: QrelsIndex, rankings: Rankings, ties: Ties) -> _Part:
    rankings = best_first(rankings)
    again = rankings.pairs.repeated()
    if len(again):
        rankings = without(rankings, again)
    return _Part(rankings.query_ids, judged.places(rankings, ties), len(again))


def _by_block(judged: QrelsIndex, path: Path, ties: Ties) -> list[_Part] | None:
    """Returns the parts of a TREC run file; None if it must be read whole: the lines of a query are
    not contiguous, or a score is NaN."""

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


_DOCUMENT = "in the run, of query {!r}, the document"


@np.errstate(over="ignore")  # see of_width
def rank_dicts(
    run: Mapping[str, Mapping[str, float]], qrels: QrelsDict, columns: Qrels, ties: Ties = Ties.TREC
) -> Ranked:
    """Ranks judged documents as `rank_judged` does, from dictionaries, without converting the run.

    `columns` is `qrels` as columns; under `Ties.ORDER`, ties are in the order of the dictionary.
    Raises UsageError for a ranking of another form, invalid scores, and ids that are not text if a
    judged document was not found or is tied.
    """
    width = np.float32 if ties is Ties.TREC else np.float64
    m = len(columns.query)
    rank = np.full(m, NOT_RETRIEVED)
    above, tied = rank.copy(), np.zeros(m, np.int64)
    returned, answered = np.zeros(columns.n, np.int64), np.zeros(columns.n, bool)
    start = 0
    for i, (query, judged) in enumerate(qrels.items()):
        found = run.get(query)
        if found is not None:
            if not isinstance(found, Mapping):
                raise UsageError(
                    f"the run's ranking of query {query!r} is {type(found).__name__}, where "
                    "{document: score} is needed"
                )
            returned[i], answered[i] = len(found), True
            scores = _scores(found, width, query)
            # NaN, and so unequal to itself, only if a score is: infinity squared is infinity.
            length = scores.dot(scores)
            if length != length:
                odd = list(found.items())[int(np.flatnonzero(np.isnan(scores))[0])]
                raise UsageError(
                    f"the run cannot be ranked: query {query!r} has a NaN score ({odd[1]!r}, of "
                    f"document {odd[0]!r})"
                )
            checked = False
            for j, document in enumerate(judged, start):
                score = found.get(document)
                if score is None:
                    # Checking all ids takes as long as all other steps, so it is only done if the
                    # system may have returned 1 instead of "1".
                    if not checked:
                        require_ids([*found], _DOCUMENT.format(query))
                        checked = True
                    continue
                at = width(score)
                higher, equal = np.count_nonzero(scores > at), np.count_nonzero(scores == at)
                above[j], tied[j], rank[j] = higher, equal, higher + 1
                if equal > 1:
                    rank[j] += _equals_ahead(found, query, document, width, ties)
        start += len(judged)
    asked = np.flatnonzero(answered)
    return gather_ranks(columns, [Ranks(asked, returned[asked], np.arange(m), rank, above, tied)])


def _scores(
    found: Mapping[str, float], width: type[np.floating[Any]], query: str
) -> npt.NDArray[Any]:
    """Returns all scores of a query as `width`. Raises UsageError for invalid scores."""
    code = "f" if width is np.float32 else "d"
    try:
        # A sixth faster than fromiter, which takes most of the time for dictionaries.
        return np.frombuffer(struct.pack(f"{len(found)}{code}", *found.values()), width)
    except (OverflowError, struct.error):  # beyond float32, or a type that fromiter may accept
        pass
    try:
        return np.fromiter(found.values(), width, len(found))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"the run has a score for query {query!r} that is no number of 64 bits ({error})"
        ) from None


def _equals_ahead(
    found: Mapping[str, float], query: str, document: str, width: type[np.floating[Any]], ties: Ties
) -> int:
    """Counts the documents with the same score that are ranked above `document`."""
    at = width(found[document])
    equals = [d for d, score in found.items() if width(score) == at]
    require_ids(equals, _DOCUMENT.format(query))
    if ties is Ties.ORDER:
        return equals.index(document)
    return sum(d > document for d in equals)
