"""The pieces of evidence of scored queries, and where each stands in its ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset, Judgements
from harness.scoring.arrays import Ints
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.rollup import haystack_sizes

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pieces:
    """Pieces of evidence, by query; every array has shape (pieces,).

    `query` is a row of the query table. `document` is the row of the document that carries it and
    was returned highest (-1: the dataset lacks it), `rank` that one's rank or NOT_RETRIEVED.
    `held`: the haystack holds a document that carries it. `tied`: one of them was returned below k,
    equal in score to a document inside k. `start` and `end` cut `judgements`, which holds the rows
    of the answer key that name the documents of each piece.
    """

    query: npt.NDArray[np.int32]
    document: npt.NDArray[np.int32]
    rank: Ints
    held: Flags
    tied: Flags
    start: Ints
    end: Ints
    judgements: Ints

    def __len__(self) -> int:
        return len(self.query)

    def carriers(self, piece: int) -> Ints:
        """Rows of the answer key that name the documents of a piece."""
        return self.judgements[self.start[piece] : self.end[piece]]

    def take(self, which: npt.NDArray[Any]) -> Pieces:
        """Some of the pieces."""
        return Pieces(
            self.query[which],
            self.document[which],
            self.rank[which],
            self.held[which],
            self.tied[which],
            self.start[which],
            self.end[which],
            self.judgements,
        )


def pieces(dataset: Dataset, judged: Judgements, ranked: Ranked, scored: Flags, k: int) -> Pieces:
    """All pieces of evidence of the scored queries; `ranked` is of the same answer key."""
    rows = np.flatnonzero((ranked.grade >= 1) & scored[ranked.query])
    held = _held(dataset, judged.query[rows], judged.document[rows])
    order = np.lexsort((~held, ranked.rank[rows], ranked.unit[rows], ranked.query[rows]))
    rows, held = rows[order], held[order]
    start = np.flatnonzero(np.diff(ranked.unit[rows], prepend=-1))
    tied = (ranked.above[rows] < k) & (ranked.rank[rows] > k)
    best = rows[start]
    return Pieces(
        ranked.query[best],
        judged.document[best],
        ranked.rank[best],
        np.logical_or.reduceat(held, start) if len(start) else held,
        np.logical_or.reduceat(tied, start) if len(start) else tied,
        start,
        np.append(start[1:], len(rows)),
        rows,
    )


def had_room(dataset: Dataset, ranked: Ranked, missed: Pieces, depth: int) -> Flags:
    """Pieces that were not returned although fewer documents were than could have been."""
    full = np.minimum(haystack_sizes(dataset), depth)
    room = (ranked.returned < full)[missed.query]
    return np.asarray((missed.rank == NOT_RETRIEVED) & room)


def _held(dataset: Dataset, query: npt.NDArray[np.int32], document: npt.NDArray[np.int32]) -> Flags:
    """Whether the haystack of each query holds the document."""
    held = document >= 0
    haystack = dataset.query_haystack[query]
    for one in np.unique(haystack):
        if dataset.haystack_size(int(one)) < len(dataset.documents):
            mine = haystack == one
            held[mine] &= np.isin(document[mine], dataset.haystack_rows(int(one)))
    if dataset.manifest.exclude_self:
        held &= document != dataset.rows_with_query_id[query]
    return held
