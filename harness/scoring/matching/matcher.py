"""Finds the source documents of a system's texts: by named sources, else by the text.

`hits.parquet` in a run's folder has the returned texts, the documents to which they were resolved,
and the way; rankings are made from it, and can be recomputed with other thresholds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.run import HitsRecord, MatchingRecord
from harness.runfiles.arrow import read_parquet
from harness.scoring.arrays import SAME_COSINE, Values, unit
from harness.scoring.matching.containment import Containment
from harness.scoring.matching.words import Chunk, Prefixes, Way, WordVocabulary, cut


@dataclass(frozen=True, slots=True)
class Matching:
    """Settings of the matching of texts with documents.

    `f1` is the minimum token F1 (above 0, at most 1), `semantic` the minimum cosine similarity (-1
    to 1), or None to disable it. Raises UsageError for other values.
    """

    f1: float = 0.3
    semantic: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.f1 <= 1:
            raise UsageError(
                f"the least token F1 of a match is above 0 and at most 1, not {self.f1}"
            )
        if self.semantic is not None and not -1 <= self.semantic <= 1:
            raise UsageError(
                f"the least semantic similarity of a match is between -1 and 1, not {self.semantic}"
            )


@dataclass(frozen=True, slots=True)
class Match:
    """The documents of one text: positions in the haystack, best first.

    Documents of a text that spans several are in the order of the text. `f1` is the best token F1
    with any document, for every way.
    """

    positions: npt.NDArray[np.int64]
    way: Way
    f1: float


UNRESOLVED = "unresolved:"
"""Prefix of the id of a hit without a document in a ranking."""

THRESHOLDS = (0.1, 0.3, 0.5)
"""Token F1 thresholds for which the number of hits that would resolve is recorded."""


@dataclass
class TextHit:
    """A hit: `query` is a row of the query table, `place` its position in the answer, from 1.

    `sources` and `documents` are rows of the document table; `sessions` are sources that are
    sessions; `unknown` counts sources that are not in the haystack. `f1` is the best token F1 with
    any searched document, NaN if not computed.
    """

    query: int
    place: int
    text: str = ""
    sources: list[int] = field(default_factory=list)
    score: float | None = None
    unknown: int = 0
    sessions: list[str] = field(default_factory=list)
    way: Way = Way.NONE
    f1: float = float("nan")
    documents: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _HitRow:
    """A row of the ranking made from hits: `document` is -1 for a hit without one.

    `first`: it is its hit's first row, to which the tokens of the hit's text are assigned.
    """

    document: int
    hit: TextHit
    first: bool


def by_query(hits: Sequence[TextHit]) -> Iterator[tuple[int, list[TextHit]]]:
    """Yields the hits of each query, in the order of the answer."""
    ordered = sorted(hits, key=lambda hit: (hit.query, hit.place))
    for query, group in groupby(ordered, key=lambda hit: hit.query):
        yield query, list(group)


def expand(hits: Sequence[TextHit], depth: int) -> tuple[list[_HitRow], int]:
    """Returns the ranking of documents of a query's hits, and the number of documents beyond k.

    Each document of a hit has a separate rank, so that k documents mean the same for all systems. A
    hit without a document has a rank too, as not relevant. Duplicates are dropped.
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
    """Returns the number of hits, and how they were resolved.

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
    """Tests which of n queries have hits, but none resolved; they are not measurable."""
    lost = np.zeros(n, bool)
    for query, mine in by_query(hits):
        lost[query] = not any(hit.documents for hit in mine)
    return lost


def write_hits(dataset: Dataset, hits: Sequence[TextHit], path: Path) -> None:
    """Writes hits.parquet: the dataset's ids, texts, scores, ways."""
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
            "sessions": pa.array([hit.sessions for hit in hits], pa.list_(pa.string())),
            "unknown_sources": pa.array([hit.unknown for hit in hits], pa.int32()),
            "way": pa.array([str(hit.way) for hit in hits], pa.string()),
            "token_f1": pa.array([hit.f1 for hit in hits], pa.float64(), from_pandas=True),
            "documents": ids([hit.documents for hit in hits]),
        }
    )
    pq.write_table(table, path, compression="zstd")


def read_hits(dataset: Dataset, path: Path) -> list[TextHit]:
    """Reads the hits that `write_hits` wrote."""
    query_of = dataset.query_rows
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
                record.get("sessions") or [],
                Way(record["way"]),
                float("nan") if record["token_f1"] is None else record["token_f1"],
                rows(query, record["documents"]),
            )
        )
    return hits


Int64 = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.floating[Any]]
Embed = Callable[[Sequence[str]], Vectors]

_NOWHERE = np.zeros(0, np.int64)


class Matcher:
    """Finds the source documents of texts in one haystack.

    Uses the first of these ways that finds a document: containment (exact, JSON-escaped,
    normalised; a text that spans several documents gives all of them), token F1, and semantic
    similarity if enabled. The last two give only the best document, with ties: further documents
    would be wrong more often than right (tests/benchmarks/matching.md).
    """

    def __init__(
        self,
        texts: Sequence[str],
        settings: Matching | None = None,
        embed: Embed | None = None,
        speakers: Sequence[str] = (),
    ) -> None:
        """`texts` are the documents, in the haystack's order; `speakers` are names that may begin a
        line. `embed` returns vectors, shape (texts, dimension), and is called only if
        `settings.semantic` is set; without `embed`, that raises UsageError."""
        self._settings = settings or Matching()
        if self._settings.semantic is not None and embed is None:
            raise UsageError("semantic matching needs an embedding model; none is given")
        self._embed = embed
        self._texts = texts
        self._prefixes = Prefixes(speakers)
        written = [cut(text, self._prefixes) for text in texts]
        self._vocabulary = WordVocabulary()
        number = self._vocabulary.__getitem__
        words = [np.fromiter(map(number, d.words), np.int64, len(d.words)) for d in written]
        self._containment = Containment(written, words, [*self._vocabulary.numbers])
        self._overlap = _WordOverlap(words, len(self._vocabulary.numbers))

    def find(self, texts: Sequence[str]) -> list[Match]:
        """Returns the documents of each text."""
        chunks = [Chunk(cut(text, self._prefixes), self._vocabulary) for text in texts]
        matches = [self._by_words(chunk) for chunk in chunks]
        if self._settings.semantic is not None:
            left = [i for i, m in enumerate(matches) if m.way is Way.NONE and texts[i].strip()]
            similar = self._by_meaning([texts[i] for i in left]) if left and self._texts else []
            for i, positions in zip(left, similar, strict=False):
                if len(positions):
                    matches[i] = Match(positions, Way.SEMANTIC, matches[i].f1)
        return matches

    def _by_words(self, chunk: Chunk) -> Match:
        f1 = self._overlap.f1(chunk)
        best = float(f1.max(initial=0.0))
        if found := self._containment.find(chunk):
            pieces, way = found
            ordered = sorted(pieces, key=lambda piece: (piece.start, -f1[piece.document]))
            distinct = dict.fromkeys(piece.document for piece in ordered)
            return Match(np.array([*distinct], np.int64), way, best)
        enough = f1 >= self._settings.f1
        if not enough.any():
            return Match(_NOWHERE, Way.NONE, best)
        worth = np.where(enough, self._overlap.rare_f1(chunk), -1.0)
        return Match(np.flatnonzero(worth == worth.max()), Way.F1, best)

    def _by_meaning(self, texts: list[str]) -> list[npt.NDArray[np.int64]]:
        """Returns the most similar documents of each text, if above the threshold."""
        assert self._embed is not None and self._settings.semantic is not None
        cosines = unit(self._embed(texts)) @ self._document_vectors.T
        best = cosines.max(axis=1, keepdims=True)
        near = (cosines >= best - SAME_COSINE) & (best >= self._settings.semantic)
        return [np.flatnonzero(row) for row in near]

    @cached_property
    def _document_vectors(self) -> Vectors:
        assert self._embed is not None
        return unit(self._embed(self._texts))


def resolve_hits(
    dataset: Dataset, hits: Sequence[TextHit], settings: Matching, embed: Embed | None = None
) -> None:
    """Sets `documents`, `way` and `f1` of every hit.

    Hits without source documents are matched by their text, in the sessions that they name (one
    document alone is the source) or else in the query's haystack: one index for each, each distinct
    text once. `embed` is required if `settings.semantic` is set.
    """
    by_text: dict[tuple[int, tuple[str, ...]], list[TextHit]] = {}
    for hit in hits:
        hit.documents, hit.way, hit.f1 = list(hit.sources), Way.SOURCES, float("nan")
        if not hit.sources:
            hit.way = Way.NONE
            if hit.text.strip():
                place = int(dataset.query_haystack[hit.query]), tuple(sorted(hit.sessions))
                by_text.setdefault(place, []).append(hit)
    for (haystack, sessions), mine in by_text.items():
        rows = dataset.haystack_rows(haystack)
        if sessions:
            of_row = dataset.documents.column("session", rows)
            rows = rows[pc.is_in(of_row, pa.array(sessions, pa.string())).to_numpy()]
            if len(rows) == 1:
                for hit in mine:
                    hit.documents, hit.way = rows.tolist(), Way.SOURCES
                continue
        speakers = dataset.documents.column("speaker", rows).unique().drop_null().to_pylist()
        matcher = Matcher(dataset.documents.contents(rows), settings, embed, speakers)
        texts = list(dict.fromkeys(hit.text for hit in mine))
        found = dict(zip(texts, matcher.find(texts), strict=True))
        for hit in mine:
            match = found[hit.text]
            hit.documents = rows[match.positions].tolist()
            hit.way, hit.f1 = match.way, match.f1


class _WordOverlap:
    """Inverted index for the token F1 of a text with each document.

    The document lists of all words are concatenated in one array.
    """

    def __init__(self, documents: Sequence[Int64], words: int) -> None:
        """`documents` are the word numbers of each, below `words`; repetitions are ignored."""
        sets = [np.unique(document) for document in documents]
        self._sizes: Int64 = np.array([len(s) for s in sets], np.int64)
        word = np.concatenate([np.zeros(0, np.int64), *sets])
        document = np.repeat(np.arange(len(sets)), self._sizes)
        self._documents = document[np.argsort(word, kind="stable")]
        frequency = np.bincount(word, minlength=words)
        self._starts = np.append(0, np.cumsum(frequency))
        self._rarity: Values = np.log1p(len(sets) / np.maximum(frequency, 1))
        self._weights = np.bincount(document, self._rarity[word], minlength=len(sets))

    def f1(self, chunk: Chunk) -> Values:
        """Returns the token F1 of a text with every document, shape (documents,).

        2 |A and B| / (|A| + |B|) of the sets of words; 0 if both are empty.
        """
        shared = np.bincount(self._having(chunk)[0], minlength=len(self._sizes))
        return 2 * shared / np.maximum(self._sizes + chunk.size, 1)

    def rare_f1(self, chunk: Chunk) -> Values:
        """Returns token F1 with words weighted by rarity, log(1 + documents / document frequency).

        It distinguishes documents that share many common words with the text. Words of no document
        are weighted as if one had them.
        """
        having, lengths = self._having(chunk)
        rarity = self._rarity[chunk.known]
        shared = np.bincount(having, np.repeat(rarity, lengths), minlength=len(self._sizes))
        unknown = (chunk.size - len(chunk.known)) * np.log1p(len(self._sizes))
        values: Values = 2 * shared / np.maximum(self._weights + rarity.sum() + unknown, 1)
        return values

    def _having(self, chunk: Chunk) -> tuple[Int64, list[int]]:
        """Returns the concatenated documents of each word of the text, and the length of each."""
        bounds = zip(self._starts[chunk.known], self._starts[chunk.known + 1], strict=True)
        lists = [self._documents[low:high] for low, high in bounds]
        return np.concatenate([np.zeros(0, np.int64), *lists]), [*map(len, lists)]
