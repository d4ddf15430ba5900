"""Hits that are texts of a system's own, on disk and on their way to documents.

`hits.parquet` in a run's folder holds them as they came, with the documents they were resolved to
and by which way; the rankings are made of it, and can be made again with other thresholds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.records.run import HitsRecord, MatchingRecord
from harness.runfiles.arrow import read_parquet
from harness.scoring.matching.found import Way

UNRESOLVED = "unresolved:"
"""How the id begins that stands in a ranking for a hit that no document was found for."""

THRESHOLDS = (0.1, 0.3, 0.5)
"""Token F1 at which it is counted how many hits would resolve."""


@dataclass
class TextHit:
    """One hit: `query` is a row of the query table, `place` its place in the answer, from 1.

    `sources` and `documents` are rows of the document table; `unknown` counts sources that the
    haystack does not hold. `f1` is the best token F1 with any document, NaN where nobody looked.
    """

    query: int
    place: int
    text: str = ""
    sources: list[int] = field(default_factory=list)
    score: float | None = None
    unknown: int = 0
    way: Way = Way.NONE
    f1: float = float("nan")
    documents: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _HitRow:
    """One row of the ranking that hits make: `document` is -1 for a hit without one.

    `first`: it is its hit's first row, which carries what the hit's text costs.
    """

    document: int
    hit: TextHit
    first: bool


def by_query(hits: Sequence[TextHit]) -> Iterator[tuple[int, list[TextHit]]]:
    """The hits of each query, in the order of their places."""
    ordered = sorted(hits, key=lambda hit: (hit.query, hit.place))
    for query, group in groupby(ordered, key=lambda hit: hit.query):
        yield query, list(group)


def expand(hits: Sequence[TextHit], depth: int) -> tuple[list[_HitRow], int]:
    """The ranking of documents that one query's hits make, and how many it had beyond k.

    Every document takes a place of its own, a hit's documents behind each other, so that k
    documents are k documents for everyone. A hit without a document takes a place too, in which
    nothing was found. A document that stands higher already is not repeated.
    """
    rows: list[_HitRow] = []
    seen: set[int] = set()
    for hit in hits:
        new = [document for document in dict.fromkeys(hit.documents) if document not in seen]
        seen.update(new)
        found = new or ([] if hit.documents else [-1])
        rows += [_HitRow(document, hit, i == 0) for i, document in enumerate(found)]
    return rows[:depth], max(0, len(rows) - depth)


def hits_record(hits: Sequence[TextHit], beyond: int, matching: MatchingRecord) -> HitsRecord:
    """Returns how many hits there were, and how they were resolved.

    `beyond` is the number of documents beyond the depth of the run.
    """
    ways = Counter(hit.way for hit in hits)
    looked = np.array([hit.f1 for hit in hits if not np.isnan(hit.f1)])
    lost = [query for query, mine in by_query(hits) if not any(hit.documents for hit in mine)]
    return HitsRecord(
        returned=len(hits),
        resolved=sum(bool(hit.documents) for hit in hits),
        by_method={str(way): ways[way] for way in Way if ways[way]},
        unknown_sources=sum(hit.unknown for hit in hits),
        matched_by_text=len(looked),
        token_f1_at_least={str(t): int((looked >= t).sum()) for t in THRESHOLDS},
        unmeasurable_queries=len(lost),
        documents_beyond_k=beyond,
        matching=matching,
    )


def unmeasurable(hits: Sequence[TextHit], n: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Queries, of n, that got hits of which none could be resolved: nothing can be said of them."""
    lost = np.zeros(n, bool)
    for query, mine in by_query(hits):
        lost[query] = not any(hit.documents for hit in mine)
    return lost


def write_hits(dataset: Dataset, hits: Sequence[TextHit], path: Path) -> None:
    """Write hits.parquet: the dataset's ids, texts, scores, ways."""
    import pyarrow.parquet as pq

    names = dataset.documents.column("id")

    def ids(column: Sequence[list[int]]) -> pa.Array:
        flat = np.fromiter((row for rows in column for row in rows), np.int32)
        offsets = np.cumsum([0, *(len(rows) for rows in column)], dtype=np.int32)
        values = names.take(pa.array(flat)).combine_chunks().cast(pa.string())
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    table = pa.table(
        {
            "query": pa.array([dataset.query_ids[hit.query] for hit in hits], pa.string()),
            "hit": pa.array([hit.place for hit in hits], pa.int32()),
            "score": pa.array([hit.score for hit in hits], pa.float64()),
            "text": pa.array([hit.text for hit in hits], pa.string()),
            "sources": ids([hit.sources for hit in hits]),
            "unknown_sources": pa.array([hit.unknown for hit in hits], pa.int32()),
            "way": pa.array([str(hit.way) for hit in hits], pa.string()),
            "token_f1": pa.array([hit.f1 for hit in hits], pa.float64(), from_pandas=True),
            "documents": ids([hit.documents for hit in hits]),
        }
    )
    pq.write_table(table, path, compression="zstd")


def read_hits(dataset: Dataset, path: Path) -> list[TextHit]:
    """What `write_hits` wrote."""
    query_of = {name: i for i, name in enumerate(dataset.query_ids)}
    records = read_parquet(path).to_pylist()
    places: dict[int, dict[str, int]] = {}

    def rows(query: int, ids: list[str]) -> list[int]:
        haystack = int(dataset.query_haystack[query])
        if ids and haystack not in places:
            places[haystack] = dataset.rows_by_id(haystack)
        return [places[haystack][name] for name in ids]

    hits = []
    for record in records:
        query = query_of[record["query"]]
        hits.append(
            TextHit(
                query,
                record["hit"],
                record["text"],
                rows(query, record["sources"]),
                record["score"],
                record["unknown_sources"],
                Way(record["way"]),
                float("nan") if record["token_f1"] is None else record["token_f1"],
                rows(query, record["documents"]),
            )
        )
    return hits
