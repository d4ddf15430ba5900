"""Which of the runs that a text shares with documents say where the text is from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np

NEED = (10, 8, 4)
"""Words of a run that are proof, by how many of its two ends fit.

An end fits where the text or the document begins (or stops) with it: what a cut leaves. Chosen on
half of LoCoMo, see tests/benchmarks/matching.md.
"""


class Piece(NamedTuple):
    """A run of words in the text and in a document of `size` words."""

    document: int
    start: int
    first: int
    length: int
    size: int

    @property
    def stop(self) -> int:
        """The word of the text behind the run."""
        return self.start + self.length

    def fits(self, words: int) -> int:
        """How many ends fit, 0 to 2, in a text of so many words."""
        begins = self.start == 0 or self.first == 0
        ends = self.stop == words or self.first + self.length == self.size
        return int(begins) + int(ends)


def choose(
    pieces: Iterable[Piece], words: int, agreement: Callable[[Piece], int]
) -> list[list[Piece]]:
    """The pieces that are proof, in the order of the text; those over the same words together.

    The longest come first: words that a longer run explains prove nothing more, so a short document
    that happens to lie inside another's words is not found. Of the documents that share the very
    same words of the text, those stay whose prefix agrees best with the text's (`agreement`, words
    in common), then those whose ends fit best: the one that is just these words before one that has
    them in its middle.
    """

    def rank(piece: Piece) -> tuple[int, int, bool]:
        return agreement(piece), piece.fits(words), piece.length == piece.size

    covered = np.zeros(words, bool)
    chosen = []
    ordered = sorted(pieces, key=lambda piece: (-piece.length, piece.start))
    for (length, start), group in groupby(ordered, key=lambda piece: (piece.length, piece.start)):
        fresh = length - int(covered[start : start + length].sum())
        if fresh < min(NEED[2], words):
            continue
        same = list(group)
        ranks = [rank(piece) for piece in same]
        best = max(ranks)
        if fresh >= min(NEED[best[1]], words):
            covered[start : start + length] = True
            chosen.append([piece for piece, its in zip(same, ranks, strict=True) if its == best])
    return sorted(chosen, key=lambda same: same[0].start)
