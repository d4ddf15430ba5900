"""From the texts of hits to the documents of their haystack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.scoring.matching.containment import Containment
from harness.scoring.matching.found import Match, Matching, Way
from harness.scoring.matching.overlap import Overlap
from harness.scoring.matching.prefixes import Prefixes
from harness.scoring.matching.words import Chunk, Vocabulary, cut

Vectors = npt.NDArray[np.floating[Any]]
_NOWHERE = np.zeros(0, np.int64)
_SAME = 1e-6  # of a cosine: equal texts may differ in the last bits of a product


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
        embed: Callable[[Sequence[str]], Vectors] | None = None,
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
        self._vocabulary = Vocabulary()
        number = self._vocabulary.__getitem__
        words = [np.fromiter(map(number, d.words), np.int64, len(d.words)) for d in written]
        self._containment = Containment(written, words, [*self._vocabulary.numbers])
        self._overlap = Overlap(words, len(self._vocabulary.numbers))

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
        cosines = _unit(self._embed(texts)) @ self._document_vectors.T
        best = cosines.max(axis=1, keepdims=True)
        near = (cosines >= best - _SAME) & (best >= self._settings.semantic)
        return [np.flatnonzero(row) for row in near]

    @cached_property
    def _document_vectors(self) -> Vectors:
        assert self._embed is not None
        return _unit(self._embed(self._texts))


def _unit(vectors: Vectors) -> Vectors:
    """Rows of length 1; a row of zeros stays so."""
    vectors = np.asarray(vectors)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)
