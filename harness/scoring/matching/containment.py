"""Texts inside documents, documents inside texts, and texts that span several documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.scoring.matching.found import Way
from harness.scoring.matching.pieces import NEED, Piece, choose
from harness.scoring.matching.runs import SEED, RunIndex
from harness.scoring.matching.words import Chunk, Written

Int64 = npt.NDArray[np.int64]

Found = tuple[list[Piece], Way]
"""Pieces in the order of the text, and the least sure of the ways in which they agree."""

_WAYS = [Way.EXACT, Way.ESCAPED, Way.NORMALISED]


class Containment:
    """An index of the documents' words in their order."""

    def __init__(
        self, written: Sequence[Written], words: Sequence[Int64], names: Sequence[str]
    ) -> None:
        """Documents as cut, as the numbers of their words, and the word of each number."""
        self._written = written
        self._words = words
        self._names = names
        self._runs = RunIndex(words)
        self._short: dict[tuple[int, ...] | str, list[int]] = {}
        self._short_lines: dict[tuple[int, ...] | str, list[int]] = {}
        for document in range(len(written)):
            self._index_short(document)

    def _index_short(self, document: int) -> None:
        """A document, or its lines, too short for a run: by the words, else by the letters."""
        text, words = self._written[document], self._words[document]
        if len(words) < SEED and text.text:
            self._short.setdefault(tuple(words.tolist()) or text.text, []).append(document)
        if len(text.lines) == 1:
            return
        for line, (low, high) in zip(
            text.lines, pairwise([*text.line_starts, len(words)]), strict=True
        ):
            if high - low < SEED:
                key = tuple(words[low:high].tolist()) or line.text
                if document not in self._short_lines.setdefault(key, []):
                    self._short_lines[key].append(document)

    def find(self, chunk: Chunk) -> Found | None:
        """The documents that a text holds or lies in; None where there are none."""
        n = len(chunk.words)
        if n < SEED:
            pieces = self._as_short_as(chunk)
        else:
            groups = choose(self._pieces(chunk), n, lambda piece: self._agreement(chunk, piece))
            pieces = self._with_neighbours(chunk, [piece for group in groups for piece in group])
        if not pieces:
            return None
        whole = _explained(pieces, n)
        ways = [self._way(chunk, piece, whole) for piece in pieces]
        return pieces, max(ways, key=_WAYS.index)

    def _as_short_as(self, chunk: Chunk) -> list[Piece]:
        """Documents that are these few words and no more, else those with such a line."""
        key = tuple(chunk.numbers.tolist()) or chunk.written.text
        n = len(chunk.words)
        found = self._short.get(key) or self._short_lines.get(key, []) if key else []
        pieces = [Piece(document, 0, 0, n, n) for document in found]
        best = max((self._agreement(chunk, piece) for piece in pieces), default=0)
        return [piece for piece in pieces if self._agreement(chunk, piece) == best]

    def _pieces(self, chunk: Chunk) -> Iterator[Piece]:
        """The runs that may be proof, as pieces."""
        runs = self._runs.find(chunk.numbers)
        # A word that was cut in two may yet make an end fit.
        begins = (runs.start <= 1) | (runs.first == 0)
        stop = runs.start + runs.length
        ends = (stop >= len(chunk.words) - 1) | (runs.first + runs.length == runs.size)
        enough = runs.length >= np.array(NEED)[begins.astype(int) + ends] - 2
        columns = (runs.document, runs.start, runs.first, runs.length, runs.size)
        for row in zip(*(column[enough].tolist() for column in columns), strict=True):
            yield self._with_cut_words(chunk, Piece(*row))

    def _with_cut_words(self, chunk: Chunk, piece: Piece) -> Piece:
        """The piece with the halves of words with which the text begins and ends."""
        document, start, first, length, size = piece
        words = self._words[document]
        if start == 1 and first > 0:
            before = self._names[words[first - 1]]
            if before.endswith(chunk.words[0]):
                start, first, length = 0, first - 1, length + 1
        if start + length == len(chunk.words) - 1 and first + length < size:
            after = self._names[words[first + length]]
            if after.startswith(chunk.words[-1]):
                length += 1
        return Piece(document, start, first, length, size)

    def _agreement(self, chunk: Chunk, piece: Piece) -> int:
        """Words that the prefixes of the line have in common here and in the document."""
        prefix = chunk.written.prefix(piece.start)
        return len(prefix & self._written[piece.document].prefix(piece.first)) if prefix else 0

    def _with_neighbours(self, chunk: Chunk, pieces: list[Piece]) -> list[Piece]:
        """Also the short documents that stand in the text right beside one that was found.

        `Yes!` lies in too many texts to prove anything, except between its own neighbours.
        """
        found = {piece.document: piece for piece in pieces}
        for step in (1, -1):
            for piece in pieces:
                beside = self._beside(chunk, piece, step)
                while beside and beside.document not in found:
                    found[beside.document] = beside
                    beside = self._beside(chunk, beside, step)
        if len(found) == len(pieces):
            return pieces
        return sorted(found.values(), key=lambda piece: piece.start)

    def _beside(self, chunk: Chunk, piece: Piece, step: int) -> Piece | None:
        """The next document (or the one before), if the text goes on with the whole of it."""
        document = piece.document + step
        reaches = piece.first + piece.length == piece.size if step > 0 else piece.first == 0
        if not reaches or not 0 <= document < len(self._words):
            return None
        words = self._words[document]
        start = piece.stop if step > 0 else piece.start - len(words)
        if len(words) == 0 or start < 0:
            return None
        if not np.array_equal(chunk.numbers[start : start + len(words)], words):
            return None
        return Piece(document, start, 0, len(words), len(words))

    def _way(self, chunk: Chunk, piece: Piece, explained: bool) -> Way:
        """How the words of a piece agree: letter for letter, or only as words.

        A part of a document is the former only in a text that is `explained`; else it is a quote.
        """
        if not explained and piece.length < piece.size:
            return Way.NORMALISED
        document = self._written[piece.document]
        text = chunk.written.text
        if piece.length:
            text = text[chunk.places[piece.start][0] : chunk.places[piece.stop - 1][1]]
        if text not in document.text:
            return Way.NORMALISED
        return Way.EXACT if chunk.written.escaped == document.escaped else Way.ESCAPED


def _explained(pieces: Sequence[Piece], words: int) -> bool:
    """Whether the pieces are all there is to a text, none left out and no document cut up."""
    covered = np.zeros(words, bool)
    for piece in pieces:
        covered[piece.start : piece.stop] = True
    return bool(covered.all()) and len({piece.document for piece in pieces}) == len(pieces)
