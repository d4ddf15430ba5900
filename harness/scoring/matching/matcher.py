"""From hits to the documents of their haystack: by the sources a system names, else by the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.scoring.arrays import SAME_COSINE, Values, unit
from harness.scoring.matching.containment import Containment
from harness.scoring.matching.found import Match, Matching, Way
from harness.scoring.matching.hits import TextHit
from harness.scoring.matching.words import Chunk, Prefixes, WordVocabulary, cut

Int64 = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.floating[Any]]
Embed = Callable[[Sequence[str]], Vectors]

_NOWHERE = np.zeros(0, np.int64)


class Matcher:
    """Finds the documents of one haystack that texts were made of.

    For each text the first of these ways that finds anything: containment (exact, JSON-escaped,
    normalised; one that spans several documents gives all of them), token F1, semantic similarity
    where it is asked for. The last two give the one best document, with others of equal worth: more
    would be wrong more often than right (tests/benchmarks/matching.md).
    """

    def __init__(
        self,
        texts: Sequence[str],
        settings: Matching | None = None,
        embed: Embed | None = None,
        speakers: Sequence[str] = (),
    ) -> None:
        """`texts` are the documents', in the haystack's order; `speakers` the names that may stand
        in front of what they say. `embed` gives vectors, shape (texts, dimension), and is called
        only where `settings.semantic` is set; without it that raises UsageError."""
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
        """The documents of each text."""
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
        """The most similar documents of each text, where they are similar enough."""
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
    """Fill `documents`, `way` and `f1` of every hit.

    Sources come first. What names none is looked for by its text in the haystack of its query: one
    index a haystack, each distinct text once. `embed` is needed where `settings.semantic` is set.
    """
    by_text: dict[int, list[TextHit]] = {}
    for hit in hits:
        hit.documents, hit.way, hit.f1 = list(hit.sources), Way.SOURCES, float("nan")
        if not hit.sources:
            hit.way = Way.NONE
            if hit.text.strip():
                by_text.setdefault(int(dataset.query_haystack[hit.query]), []).append(hit)
    for haystack, mine in by_text.items():
        rows = dataset.haystack_rows(haystack)
        speakers = dataset.documents.column("speaker", rows).unique().drop_null().to_pylist()
        matcher = Matcher(dataset.documents.contents(rows), settings, embed, speakers)
        texts = list(dict.fromkeys(hit.text for hit in mine))
        found = dict(zip(texts, matcher.find(texts), strict=True))
        for hit in mine:
            match = found[hit.text]
            hit.documents = rows[match.positions].tolist()
            hit.way, hit.f1 = match.way, match.f1


class _WordOverlap:
    """How many words a text and each document share: token F1 from an inverted index.

    For each word the documents that have it stand end to end in one array.
    """

    def __init__(self, documents: Sequence[Int64], words: int) -> None:
        """`documents` are the word numbers of each, below `words`; repetitions do not count."""
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
        """Token F1 of a text with every document, shape (documents,).

        2 |A and B| / (|A| + |B|) of the sets of words: the harmonic mean of the shares of each that
        the other has. 0 where both are empty.
        """
        shared = np.bincount(self._having(chunk)[0], minlength=len(self._sizes))
        return 2 * shared / np.maximum(self._sizes + chunk.size, 1)

    def rare_f1(self, chunk: Chunk) -> Values:
        """The same with every word counted by its rarity, log(1 + documents / documents with it).

        It tells which of several documents with many common words is meant: `pottery` says more
        than `and it was so`. Words that no document has count as if one had them.
        """
        having, lengths = self._having(chunk)
        rarity = self._rarity[chunk.known]
        shared = np.bincount(having, np.repeat(rarity, lengths), minlength=len(self._sizes))
        unknown = (chunk.size - len(chunk.known)) * np.log1p(len(self._sizes))
        values: Values = 2 * shared / np.maximum(self._weights + rarity.sum() + unknown, 1)
        return values

    def _having(self, chunk: Chunk) -> tuple[Int64, list[int]]:
        """The documents that have each word of the text, end to end, and how many have it."""
        bounds = zip(self._starts[chunk.known], self._starts[chunk.known + 1], strict=True)
        lists = [self._documents[low:high] for low, high in bounds]
        return np.concatenate([np.zeros(0, np.int64), *lists]), [*map(len, lists)]
