"""What stands in the k places that missed evidence did not get."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.scoring.resolve import Resolved
from harness.verdicts.analyze.pieces import Pieces

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]

EMPTY = -2
"""A place in which nothing was returned."""
UNKNOWN = -1
"""A place with a text, or an id, that no document of the haystack was found for."""


def top(resolved: Resolved, queries: int, k: int) -> Rows:
    """The document rows in the first k places of each query, or EMPTY or UNKNOWN; (queries, k)."""
    places = np.full((queries, k), EMPTY, np.int32)
    inside = resolved.rank <= k
    places[resolved.query[inside], resolved.rank[inside] - 1] = resolved.row[inside]
    return places


class Taken:
    """The places above each missed piece, and whose they are; arrays of shape (pieces, k)."""

    def __init__(self, dataset: Dataset, missed: Pieces, places: Rows) -> None:
        self._dataset, self._missed = dataset, missed
        self.rows: Rows = places[missed.query]
        there = self.rows >= 0
        own = np.maximum(missed.document, 0)
        known = (missed.document >= 0)[:, None]
        sessions, speakers = dataset.session_codes, speaker_codes(dataset)
        self._session = np.where(there, sessions[self.rows], -1)
        self.of_session: Flags = (self._session == sessions[own][:, None]) & known
        self.of_session &= self._session >= 0
        speaker = np.where(there, speakers[self.rows], -1)
        mine = np.where(missed.document >= 0, speakers[own], -1)[:, None]
        self.of_others: Flags = (speaker >= 0) & (mine >= 0) & (speaker != mine)

    @property
    def hidden(self) -> Flags:
        """Half or more of what was returned are texts without a document."""
        unknown = (self.rows == UNKNOWN).sum(axis=1)
        returned = (self.rows != EMPTY).sum(axis=1)
        return np.asarray((unknown > 0) & (2 * unknown >= returned))

    @property
    def session_there(self) -> Flags:
        """A document of the piece's session is in the top k."""
        return np.asarray(self.of_session.any(axis=1))

    @property
    def mostly_session(self) -> Flags:
        """Two places or more are of the piece's session, and no session has more."""
        own = self.of_session.sum(axis=1)
        result: Flags = np.asarray(own >= 2)
        for at in np.flatnonzero(result):
            counts = Counter(self._session[at][self._session[at] >= 0].tolist())
            result[at] = max(counts.values()) == own[at]
        return result

    def by_others(self, names_another: Flags) -> Flags:
        """Other speakers have most places, and all of them or, (pieces,), the query names one."""
        others, places = self.of_others.sum(axis=1), (self.rows != EMPTY).sum(axis=1)
        return np.asarray((2 * others > places) & ((others == places) | names_another))

    @property
    def beside(self) -> Flags:
        """A document next to the piece in its session is in the top k."""
        column = self._dataset.documents.column("position")
        position = column.to_numpy().astype(float)  # null: NaN, which is next to nothing
        own = position[np.maximum(self._missed.document, 0)][:, None]
        near = np.abs(position[np.maximum(self.rows, 0)] - own) == 1
        return np.asarray((near & self.of_session).any(axis=1))


def speaker_codes(dataset: Dataset) -> Rows:
    """A number for each document's speaker; -1 without one."""
    column = dataset.documents.column("speaker").combine_chunks().dictionary_encode()
    return np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int32)
