"""Evidence items of scored queries, their ranks, and the documents above them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.analysis.analyze.causes import Flags
from harness.datasets.reader import Dataset, DatasetQrels
from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.schema import Ability
from harness.scoring.arrays import Ints
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.resolve import Resolved, in_haystack, sizes_by_query

Rows = npt.NDArray[np.int32]

EMPTY = -2
"""A position without a result."""

UNKNOWN = -1
"""A position with a text or id that matches no document of the haystack."""


@dataclass(frozen=True)
class Pieces:
    """Evidence items, by query; all arrays have the shape (pieces,).

    `query` is a row of the query table. `document` is the row of its document that was
    returned highest (-1: not in the dataset), `rank` the rank of that or NOT_RETRIEVED. `held`: the
    haystack contains one of its documents. `tied`: one of them was returned below k with the score
    of a document inside k. `start` and `end` are slices of `judgements`, the rows of the qrels with
    the documents of each item.
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
        """Rows of the qrels with the documents of an item."""
        return self.judgements[self.start[piece] : self.end[piece]]

    def take(self, which: npt.NDArray[Any]) -> Pieces:
        """Select items."""
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


def pieces(dataset: Dataset, judged: DatasetQrels, ranked: Ranked, scored: Flags, k: int) -> Pieces:
    """All evidence items of the scored queries; `ranked` is of the same qrels."""
    rows = np.flatnonzero((ranked.grade >= 1) & scored[ranked.query])
    there = in_haystack(dataset, judged.query[rows], judged.document[rows])
    order = np.lexsort((~there, ranked.rank[rows], ranked.evidence_id[rows], ranked.query[rows]))
    rows, there = rows[order], there[order]
    start = np.flatnonzero(np.diff(ranked.evidence_id[rows], prepend=-1))
    tied = (ranked.above[rows] < k) & (ranked.rank[rows] > k)
    best = rows[start]
    return Pieces(
        ranked.query[best],
        judged.document[best],
        ranked.rank[best],
        np.logical_or.reduceat(there, start) if len(start) else there,
        np.logical_or.reduceat(tied, start) if len(start) else tied,
        start,
        np.append(start[1:], len(rows)),
        rows,
    )


def had_room(dataset: Dataset, ranked: Ranked, missed: Pieces, depth: int) -> Flags:
    """Items that were not returned although the ranking had room."""
    full = np.minimum(sizes_by_query(dataset), depth)
    room = (ranked.returned < full)[missed.query]
    return np.asarray((missed.rank == NOT_RETRIEVED) & room)


# -- The documents at the first k ranks ------------------------------------------------------------


def top(resolved: Resolved, queries: int, k: int) -> Rows:
    """The document rows at the first k ranks of each query, or EMPTY or UNKNOWN; (queries, k)."""
    places = np.full((queries, k), EMPTY, np.int32)
    inside = resolved.rank <= k
    places[resolved.query[inside], resolved.rank[inside] - 1] = resolved.row[inside]
    return places


class Taken:
    """The documents at the first k ranks above each missed item.

    Arrays of shape (pieces, k): `rows` of the documents (EMPTY and UNKNOWN as in `top`);
    `of_session` and `of_others`, whether they are of the item's session, and of another speaker.
    """

    def __init__(self, dataset: Dataset, missed: Pieces, places: Rows) -> None:
        self._dataset, self._missed = dataset, missed
        self.rows: Rows = places[missed.query]
        there = self.rows >= 0
        own = np.maximum(missed.document, 0)
        known = (missed.document >= 0)[:, None]
        sessions, speakers = dataset.session_codes, _speaker_codes(dataset)
        self._session = np.where(there, sessions[self.rows], -1)
        self.of_session: Flags = (self._session == sessions[own][:, None]) & known
        self.of_session &= self._session >= 0
        speaker = np.where(there, speakers[self.rows], -1)
        mine = np.where(missed.document >= 0, speakers[own], -1)[:, None]
        self.of_others: Flags = (speaker >= 0) & (mine >= 0) & (speaker != mine)

    @property
    def hidden(self) -> Flags:
        """Half or more of the results are texts without a document."""
        unknown = (self.rows == UNKNOWN).sum(axis=1)
        returned = (self.rows != EMPTY).sum(axis=1)
        return np.asarray((unknown > 0) & (2 * unknown >= returned))

    @property
    def session_there(self) -> Flags:
        """A document of the item's session is in the top k."""
        return np.asarray(self.of_session.any(axis=1))

    @property
    def mostly_session(self) -> Flags:
        """Two results or more are of the item's session, and no session has more."""
        own = self.of_session.sum(axis=1)
        result: Flags = np.asarray(own >= 2)
        for at in np.flatnonzero(result):
            counts = Counter(self._session[at][self._session[at] >= 0].tolist())
            result[at] = max(counts.values()) == own[at]
        return result

    def by_others(self, names_another: Flags) -> Flags:
        """Other speakers have most results, and all of them, or (pieces,) the query names one."""
        others, places = self.of_others.sum(axis=1), (self.rows != EMPTY).sum(axis=1)
        return np.asarray((2 * others > places) & ((others == places) | names_another))

    @property
    def beside(self) -> Flags:
        """A neighbour of the item in its session is in the top k."""
        column = self._dataset.documents.column("position")
        position = column.to_numpy().astype(float)  # null: NaN, which has no neighbours
        own = position[np.maximum(self._missed.document, 0)][:, None]
        near = np.abs(position[np.maximum(self.rows, 0)] - own) == 1
        return np.asarray((near & self.of_session).any(axis=1))


def _speaker_codes(dataset: Dataset) -> Rows:
    """The number of each document's speaker; -1 without one."""
    column = dataset.documents.column("speaker").combine_chunks().dictionary_encode()
    return np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int32)


# -- Knowledge update: older and newer versions of a fact ------------------------------------------


class Versions:
    """The evidence of each query, with its time in the haystack."""

    def __init__(self, dataset: Dataset, judged: DatasetQrels) -> None:
        self._dataset = dataset
        self._update = dataset.abilities == str(Ability.KNOWLEDGE_UPDATE)
        self._judged = judged
        self._starts = np.searchsorted(judged.query, np.arange(dataset.n_queries + 1))
        self._times: dict[int, dict[int, int | None]] = {}

    def gold(self, query: int) -> set[int]:
        """Document rows that are evidence for a query."""
        rows = slice(self._starts[query], self._starts[query + 1])
        found = self._judged.document[rows][self._judged.grade[rows] >= 1]
        return set(found[found >= 0].tolist())

    def compare(self, query: int, document: int, other: int) -> int:
        """1 if `other` is of a later date than `document`, -1 if of an earlier one, else 0.

        Always 0 for queries of other abilities, and if a time is unknown.
        """
        if not self._update[query]:
            return 0
        times = self._of_haystack(int(self._dataset.query_haystack[query]))
        mine, its = times.get(document), times.get(other)
        return 0 if mine is None or its is None else (its > mine) - (its < mine)

    def above(self, missed: Pieces, rows: npt.NDArray[np.int32]) -> tuple[Flags, Flags]:
        """Whether `rows`, shape (pieces, k), contain newer, and older evidence."""
        newer, older = np.zeros(len(missed), bool), np.zeros(len(missed), bool)
        for at in np.flatnonzero(self._update[missed.query]):
            query, document = int(missed.query[at]), int(missed.document[at])
            there = self.gold(query).intersection(rows[at].tolist())
            order = {self.compare(query, document, other) for other in there}
            newer[at], older[at] = 1 in order, -1 in order
        return newer, older

    def _of_haystack(self, haystack: int) -> dict[int, int | None]:
        if haystack not in self._times:
            rows = self._dataset.haystack_rows(haystack).tolist()
            stamps = self._dataset.haystack_timestamps(haystack).to_pylist()
            self._times[haystack] = dict(zip(rows, stamps, strict=True))
        return self._times[haystack]


# -- Similarity of queries and missed evidence: shared words, and cosines --------------------------


Terms = frozenset[int]
Embed = Callable[[Sequence[str]], npt.NDArray[np.floating[Any]]]


class WordSimilarity:
    """Words that each missed item shares with its query, as written (`shared`).

    Arrays of shape (pieces,): `counts` of these; `only_names`, there are some, and all are names of
    speakers of the haystack; `names_another`, the query names a speaker of the haystack, but not
    the item's.
    """

    def __init__(self, dataset: Dataset, judged: DatasetQrels, missed: Pieces) -> None:
        self._words = Tokenizer()
        self._dataset, self._missed = dataset, missed
        self._names: dict[int, dict[str, Terms]] = {}
        self._known: dict[str, Terms] = {}
        self._texts: list[str] = dataset.query_table["text"].to_pylist()
        texts = self._texts
        speakers = dataset.documents.column("speaker")
        self.shared: list[tuple[str, ...]] = []
        self.counts = np.zeros(len(missed), np.int64)
        self.only_names: Flags = np.zeros(len(missed), bool)
        self.names_another: Flags = np.zeros(len(missed), bool)
        documents = judged.document[missed.judgements]
        self._read: dict[int, str] = {}
        self._learn(self._contents(np.unique(documents[documents >= 0])))
        self._learn([texts[query] for query in set(missed.query.tolist())])
        for at, query in enumerate(missed.query.tolist()):
            carriers = judged.document[missed.carriers(at)]
            parts = [self._terms(self._read[row]) for row in carriers.tolist() if row >= 0]
            mine = self._terms(texts[query])
            terms = mine.intersection(frozenset[int]().union(*parts))
            self.counts[at] = len(terms)
            self.shared.append(self._written(texts[query], terms))
            names = self._names_of(int(dataset.query_haystack[query]))
            every = frozenset[int]().union(*names.values())
            self.only_names[at] = len(terms) > 0 and terms <= every
            own = speakers[int(missed.document[at])].as_py() if missed.document[at] >= 0 else None
            named = {name for name, of_name in names.items() if of_name <= mine}
            self.names_another[at] = bool(named) and own is not None and own not in named

    def more_in(self, places: Rows) -> Flags:
        """More than half of the results, (pieces, k), share more words than the item does.

        Not computed for items that share no word, or only names.
        """
        result = np.zeros(len(self.shared), bool)
        chosen = np.flatnonzero((self.counts > 0) & ~self.only_names)
        near = np.unique(places[chosen])
        self._learn(self._contents(near[near >= 0]))
        for at in chosen:
            rows = places[at][places[at] >= 0]
            mine = self._terms(self._texts[int(self._missed.query[at])])
            contents = self._contents(rows)
            more = sum(len(mine & self._terms(text)) > self.counts[at] for text in contents)
            result[at] = 2 * more > int((places[at] != EMPTY).sum())
        return result

    def _terms(self, text: str) -> Terms:
        """The words of a text as numbers, cached by text."""
        if text not in self._known:
            self._known[text] = frozenset(self._words.terms(text).tolist())
        return self._known[text]

    def _learn(self, texts: Sequence[str]) -> None:
        """Finds the words of many texts at once."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        terms, lengths = self._words.encode_column(pa.array(new, pa.large_string()))
        parts = np.split(terms, np.cumsum(lengths)[:-1]) if new else []
        self._known |= {t: frozenset(of.tolist()) for t, of in zip(new, parts, strict=True)}

    def _contents(self, rows: Rows) -> list[str]:
        """Texts of documents, cached."""
        new = [row for row in rows.tolist() if row not in self._read]
        texts = self._dataset.documents.contents(np.array(new, np.int32))
        self._read.update(zip(new, texts, strict=True))
        return [self._read[row] for row in rows.tolist()]

    def _written(self, text: str, terms: Terms) -> tuple[str, ...]:
        """The words of a text that have these terms, one word per term."""
        found: dict[int, str] = {}
        for word in re.findall(r"\w+", text) if len(terms) else ():
            for term in self._terms(word) & terms:
                found.setdefault(term, word)
        return tuple(found.values())

    def _names_of(self, haystack: int) -> dict[str, Terms]:
        """The terms of each speaker's name."""
        if self._dataset.documents.lack("speaker") == len(self._dataset.documents):
            return {}
        if haystack not in self._names:
            rows = self._dataset.haystack_rows(haystack)
            names = self._dataset.documents.column("speaker", rows).unique().drop_null()
            terms = {name: self._terms(name) for name in names.to_pylist()}
            self._names[haystack] = {name: of for name, of in terms.items() if of}
        return self._names[haystack]


def similarities(dataset: Dataset, missed: Pieces, embed: Embed) -> npt.NDArray[np.float64]:
    """The cosine of each item's document with its query, (pieces,); NaN without a document.

    `embed` returns unit vectors, shape (texts, dimension); each text is embedded once.
    """
    cosines = np.full(len(missed), np.nan)
    there = np.flatnonzero(missed.document >= 0)
    if len(there):
        asked, query = np.unique(missed.query[there], return_inverse=True)
        rows, document = np.unique(missed.document[there], return_inverse=True)
        of_queries = embed(dataset.query_table["text"].take(asked.tolist()).to_pylist())
        of_documents = embed(dataset.documents.contents(rows))
        cosines[there] = (of_queries[query] * of_documents[document]).sum(axis=1)
    return cosines
