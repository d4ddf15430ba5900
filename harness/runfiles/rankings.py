"""Rankings as columns, as in the rankings.parquet of a run folder.

`readers.read_rankings` reads run files of other formats. Ids are the dataset's own ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError, require_ids
from harness.runfiles.arrow import flags, integers, take

Run = Mapping[str, Mapping[str, float]]
"""Rankings in the form of pytrec_eval and BEIR: query id -> document id -> score."""


@dataclass(frozen=True, repr=False)
class Rankings:
    """Rankings of many queries, one row per returned document.

    Shapes: `query`, `document` and `score` have length n and are grouped by query; the rows of a
    query are in the order in which they were returned. `query` holds indices into `query_ids`.
    `score` is None if the system gave no scores; then only the order counts.
    """

    query_ids: list[str]
    query: npt.NDArray[np.int32]
    document: pa.ChunkedArray
    score: npt.NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        """Counts of queries and documents only."""
        scored = "" if self.score is not None else ", without scores"
        return f"<Rankings of {len(self.query_ids)} queries: {len(self)} documents{scored}>"

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Row where each query's ranking begins; shape (len(query_ids) + 1,)."""
        return np.searchsorted(self.query, np.arange(len(self.query_ids) + 1))

    @cached_property
    def pairs(self) -> RankedPairs:
        """An index of the (query, document) pairs, made once and kept."""
        return RankedPairs(self.query, self.document)


def from_dict(run: Run) -> Rankings:
    """Converts `{query: {document: score}}` to rankings; does not modify the dictionary.

    Raises UsageError for a dictionary of another form, ids that are not text, and NaN scores.
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
    """Groups rows in any order into rankings. Raises UsageError for NaN scores."""
    if score is not None and np.isnan(score).any():
        bad = np.flatnonzero(np.isnan(score))
        raise UsageError(
            f"{where}: {len(bad)} scores are NaN, first for query {query_ids[query[bad[0]]]!r}; "
            "a NaN has no place in an order, so correct the system that wrote it"
        )
    return grouped_rankings(query_ids, query, document, score)


def grouped_rankings(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
) -> Rankings:
    """Groups rows by query number; rows of a query keep their order."""
    if (query[1:] < query[:-1]).any():
        order = np.argsort(query, kind="stable")
        query, document = query[order], take(document, order)
        score = None if score is None else score[order]
    return Rankings(query_ids, query.astype(np.int32, copy=False), document, score)


def best_first(rankings: Rankings) -> Rankings:
    """Sorts each query's documents by descending score; ties keep their order.

    Rankings that are sorted already, as most are, are returned as they are.
    """
    score, query = rankings.score, rankings.query
    if score is None or not ((score[1:] > score[:-1]) & (query[1:] == query[:-1])).any():
        return rankings
    order = np.lexsort((-score, query))
    document = take(rankings.document, order)
    return Rankings(rankings.query_ids, query, document, score[order])


def without(rankings: Rankings, rows: npt.NDArray[np.int64]) -> Rankings:
    """Returns the rankings without some rows."""
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


# -- Pairs of a query and a document, found by sorted hashes --------------------------------------

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 16  # ids that are hashed at once


class RankedPairs:
    """Lookup index of n (query, document) pairs.

    Sorts n numbers, each made of the upper bits of a pair's hash and, below them, its row. This
    serves both lookups and the search for repeated pairs. Pairs with equal hashes are compared as
    text.
    """

    def __init__(self, query: npt.NDArray[np.int32], document: pa.ChunkedArray) -> None:
        """`query`, shape (n,), holds the query number of each row, `document` the document id."""
        self._query, self._document = query, document
        n = len(query)
        self._low = np.uint64((1 << max(n - 1, 1).bit_length()) - 1)
        keys, start = np.arange(n, dtype=np.uint64), 0
        for part in blocks_of(document):
            end = start + len(part)
            mixed = query[start:end].astype(np.uint64) * _MIX
            keys[start:end] |= (hashes(part) ^ mixed) & ~self._low
            start = end
        keys.sort()
        self._keys = keys

    def find(
        self, query: npt.NDArray[Any], document: pa.Array, hashed: Hashes
    ) -> tuple[Ints, Ints]:
        """Returns (index of the pair, row) for every matching row, in this order.

        `hashed` is `hashes(document)`.
        """
        wanted = (hashed ^ query.astype(np.uint64) * _MIX) & ~self._low
        order = np.argsort(wanted)  # a search in ascending order reads memory in order
        first, end = np.empty((2, len(wanted)), np.int64)
        first[order] = np.searchsorted(self._keys, wanted[order])
        end[order] = np.searchsorted(self._keys, wanted[order] | self._low, side="right")
        counts = end - first
        which = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = (self._keys[first[which] + within] & self._low).astype(np.int64)
        equal = pc.equal(take(self._document, row), document.take(integers(which)))
        same = flags(equal) & (self._query[row] == query[which])
        return which[same], row[same]

    def repeated(self) -> Ints:
        """Returns the rows, ascending, that repeat the pair of an earlier row."""
        twin = (self._keys[1:] ^ self._keys[:-1]) <= self._low
        at = np.flatnonzero(twin)
        if len(at) == 0:
            return np.zeros(0, np.int64)
        suspects = np.unique(self._keys[np.concatenate([at, at + 1])] & self._low).astype(np.int64)
        seen: set[tuple[int, str]] = set()
        again = []
        documents = take(self._document, suspects).to_pylist()
        for row, document in zip(suspects.tolist(), documents, strict=True):
            pair = (int(self._query[row]), document)
            if pair in seen:
                again.append(row)
            seen.add(pair)
        return np.array(again, np.int64)


def blocks_of(ids: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yields ids in parts that fit in the processor's cache."""
    for chunk in ids.chunks:
        yield from (chunk.slice(start, _BLOCK) for start in range(0, len(chunk), _BLOCK))


def hashes(ids: pa.Array) -> Hashes:
    """Returns a 64-bit hash of each string; each step mixes eight bytes of all strings."""
    if len(ids) == 0:
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset : ids.offset + len(ids) + 1]
    data = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    at, left = offsets[:-1] - offsets[0], np.diff(offsets)
    # Eight bytes of padding, so that a word can be read at every position.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))
    masks = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
    found = _mixed(left.astype(np.uint64), words[at] & masks[np.minimum(left, 8)])
    for step in range(8, int(left.max()), 8):
        # Only longer strings: a hash must not depend on neighbouring strings.
        on = np.flatnonzero(left > step)
        word = words[at[on] + step] & masks[np.minimum(left[on] - step, 8)]
        found[on] = _mixed(found[on], word)
    return found


def _mixed(hashed: Hashes, word: Hashes) -> Hashes:
    hashed ^= word
    hashed *= _MIX
    hashed ^= hashed >> np.uint64(29)
    return hashed
