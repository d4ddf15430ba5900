"""Rankings as columns: what a retriever returned, in memory and in the folder of a run.

Run files of other forms are read by `readers.read_rankings`. Ids here are the dataset's own ids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError, require_ids
from harness.runfiles.arrow import take
from harness.runfiles.pairs import RankedPairs

Run = Mapping[str, Mapping[str, float]]
"""Rankings in memory, as pytrec_eval and BEIR have them: query id -> document id -> score."""


@dataclass(frozen=True, repr=False)
class Rankings:
    """Rankings of many queries, one row a returned document.

    Shapes: `query`, `document` and `score` have length n and are grouped by query; the rows of a
    query stand in the order in which they were returned. `query` holds indices into `query_ids`.
    `score` is None where the system gave none: then only the order counts.
    """

    query_ids: list[str]
    query: npt.NDArray[np.int32]
    document: pa.ChunkedArray
    score: npt.NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        """How many; not which."""
        scored = "" if self.score is not None else ", without scores"
        return f"<Rankings of {len(self.query_ids)} queries: {len(self)} documents{scored}>"

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Row where each query's ranking begins; shape (len(query_ids) + 1,)."""
        return np.searchsorted(self.query, np.arange(len(self.query_ids) + 1))


def from_dict(run: Run) -> Rankings:
    """Rankings from `{query: {document: score}}`; the caller's dictionary is left as it is.

    Raises UsageError for a dictionary of another form, ids that are no text, and scores that are
    NaN.
    """
    require_ids(run, "the run's query")
    try:
        sizes = [len(documents) for documents in run.values()]
        scores = np.fromiter((s for r in run.values() for s in r.values()), np.float64, sum(sizes))
        for id_, ranking in run.items():
            require_ids(ranking, f"in the run, of query {id_!r}, the document")
        documents = pa.array((d for ranking in run.values() for d in ranking), pa.string())
    except (AttributeError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise UsageError(
            f"the run must be {{query: {{document: score}}}}, ids text and scores numbers ({error})"
        ) from None
    query = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return checked_rankings(list(run), query, pa.chunked_array([documents]), scores, "the run")


def checked_rankings(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
    where: str,
) -> Rankings:
    """Rankings of rows in any order. Raises UsageError for NaN."""
    if score is not None and np.isnan(score).any():
        bad = np.flatnonzero(np.isnan(score))
        raise UsageError(
            f"{where}: {len(bad)} scores are NaN, first for query {query_ids[query[bad[0]]]!r}; "
            "a NaN has no place in an order, so mend the system that wrote it"
        )
    return grouped_rankings(query_ids, query, document, score)


def grouped_rankings(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
) -> Rankings:
    """Group the rows by query, in order of first mention; order is kept inside."""
    if (query[1:] < query[:-1]).any():
        order = np.argsort(query, kind="stable")
        query, document = query[order], take(document, order)
        score = None if score is None else score[order]
    return Rankings(query_ids, query.astype(np.int32, copy=False), document, score)


def duplicates(rankings: Rankings) -> npt.NDArray[np.int64]:
    """Rows whose document stands in the same query's ranking above them already."""
    return RankedPairs(rankings.query, rankings.document).repeated()


def best_first(rankings: Rankings) -> Rankings:
    """The rankings with each query's scores descending; equals stay in the order they stand in.

    Run files and dictionaries may come in any order; most come so already and cost one look.
    """
    score, query = rankings.score, rankings.query
    if score is None or not ((score[1:] > score[:-1]) & (query[1:] == query[:-1])).any():
        return rankings
    order = np.lexsort((-score, query))
    document = take(rankings.document, order)
    return Rankings(rankings.query_ids, query, document, score[order])


def without(rankings: Rankings, rows: npt.NDArray[np.int64]) -> Rankings:
    """The rankings less some rows."""
    keep = np.ones(len(rankings), bool)
    keep[rows] = False
    return Rankings(
        rankings.query_ids,
        rankings.query[keep],
        rankings.document.filter(pa.array(keep)),
        None if rankings.score is None else rankings.score[keep],
    )


def without_queries(rankings: Rankings, query_ids: Collection[str]) -> Rankings:
    """Returns the rankings without those of some queries."""
    gone = np.isin(rankings.query_ids, list(query_ids))
    if not gone.any():
        return rankings
    rest = without(rankings, np.flatnonzero(gone[rankings.query]))
    number = np.cumsum(~gone, dtype=np.int32) - 1
    ids = [name for name, out in zip(rankings.query_ids, gone.tolist(), strict=True) if not out]
    return Rankings(ids, number[rest.query], rest.document, rest.score)
