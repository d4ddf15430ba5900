"""From the text of a hit to the documents of its haystack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.matching.containment import Containment, Found
from harness.matching.found import Match, Matching, Way
from harness.matching.overlap import Overlap
from harness.matching.prefixes import Prefixes
from harness.matching.words import Chunk, Vocabulary, cut

Values = npt.NDArray[np.float64]
Embed = Callable[[Sequence[str]], npt.NDArray[np.floating[Any]]]


class Matcher:
    """Finds the documents of one haystack that texts were made of. See the package for the ways."""

    def __init__(
        self,
        texts: Sequence[str],
        settings: Matching | None = None,
        embed: Embed | None = None,
        speakers: Sequence[str] = (),
    ) -> None:
        """`texts` are the documents', in the haystack's order; `speakers` names that may stand in
        front of what they say. `embed` gives vectors, shape (texts, dimension); it is called only
        where `settings.semantic` is set."""
        self._settings = settings or Matching()
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
        contained = self._containment.find(chunks)
        return [self._match(c, found) for c, found in zip(chunks, contained, strict=True)]

    def _match(self, chunk: Chunk, found: Found | None) -> Match:
        f1 = self._overlap.f1(chunk.known, chunk.size)
        best = float(f1.max(initial=0.0))
        if found:
            pieces, way = found
            ordered = sorted(pieces, key=lambda piece: (piece.start, -f1[piece.document]))
            distinct = list(dict.fromkeys(piece.document for piece in ordered))
            return Match(np.array(distinct, np.int64), way, best)
        if best >= self._settings.f1:
            return Match(np.flatnonzero(f1 == best), Way.F1, best)
        return Match(np.zeros(0, np.int64), Way.NONE, best)
