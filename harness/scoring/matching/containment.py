"""Finds texts inside documents, documents inside texts, and texts that span several documents.

It compares runs of words that a text and documents share, long enough to identify the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.scoring.matching.words import Chunk, Way, Written

Int64 = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]

SEED = 4
"""Words of the shortest run that is found: shorter ones stand in most texts."""

# Odd numbers with many bits set (from SplitMix64 and its kin); a key mixes SEED words into one.
_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64
)
_MOST = 1 << 21
"""Places of a text's seeds that are looked at; more have only texts of one phrase over and over."""

NEED = (10, 8, 4)
"""Words of a run that are proof, by how many of its two ends fit.

An end fits where the text or the document begins (or stops) with it: what a cut leaves. Chosen on
half of LoCoMo, see tests/benchmarks/matching.md.
"""


class Span(NamedTuple):
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


Found = tuple[list[Span], Way]
"""Pieces in the order of the text, and the least sure of the ways in which they agree."""

_WAYS = [Way.EXACT, Way.ESCAPED, Way.NORMALISED]


class Containment:
    """Finds the documents of a haystack that a text holds or lies in."""

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

    def _as_short_as(self, chunk: Chunk) -> list[Span]:
        """Documents that are these few words and no more, else those with such a line."""
        key = tuple(chunk.numbers.tolist()) or chunk.written.text
        n = len(chunk.words)
        found = self._short.get(key) or self._short_lines.get(key, []) if key else []
        pieces = [Span(document, 0, 0, n, n) for document in found]
        best = max((self._agreement(chunk, piece) for piece in pieces), default=0)
        return [piece for piece in pieces if self._agreement(chunk, piece) == best]

    def _pieces(self, chunk: Chunk) -> Iterator[Span]:
        """The runs that may be proof, as pieces."""
        runs = self._runs.find(chunk.numbers)
        # A word that was cut in two may yet make an end fit.
        begins = (runs.start <= 1) | (runs.first == 0)
        stop = runs.start + runs.length
        ends = (stop >= len(chunk.words) - 1) | (runs.first + runs.length == runs.size)
        enough = runs.length >= np.array(NEED)[begins.astype(int) + ends] - 2
        columns = (runs.document, runs.start, runs.first, runs.length, runs.size)
        for row in zip(*(column[enough].tolist() for column in columns), strict=True):
            yield self._with_cut_words(chunk, Span(*row))

    def _with_cut_words(self, chunk: Chunk, piece: Span) -> Span:
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
        return Span(document, start, first, length, size)

    def _agreement(self, chunk: Chunk, piece: Span) -> int:
        """Words that the prefixes of the line have in common here and in the document."""
        prefix = chunk.written.prefix(piece.start)
        return len(prefix & self._written[piece.document].prefix(piece.first)) if prefix else 0

    def _with_neighbours(self, chunk: Chunk, pieces: list[Span]) -> list[Span]:
        """Adds short documents that directly precede or follow a matched document in the text.

        `Yes!` occurs in too many texts to be evidence, except next to its own neighbours.
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

    def _beside(self, chunk: Chunk, piece: Span, step: int) -> Span | None:
        """The next document (or the previous one), if the text continues with all of it."""
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
        return Span(document, start, 0, len(words), len(words))

    def _way(self, chunk: Chunk, piece: Span, explained: bool) -> Way:
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


def choose(
    pieces: Iterable[Span], words: int, agreement: Callable[[Span], int]
) -> list[list[Span]]:
    """The pieces that are proof, in the order of the text; those over the same words together.

    The longest come first: words that a longer run explains prove nothing more, so a short document
    that happens to lie inside another's words is not found. Of the documents that share the very
    same words of the text, those stay whose prefix agrees best with the text's (`agreement`, words
    in common), then those whose ends fit best: the one that is just these words before one that has
    them in its middle.
    """

    def rank(piece: Span) -> tuple[int, int, bool]:
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


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs that cannot be made longer, as aligned columns in the order of `start`.

    `start` and `first` are the run's first word in the text and in the document, `length` its
    words, `size` the document's.
    """

    document: Int64
    start: Int64
    first: Int64
    length: Int64
    size: Int64


class RunIndex:
    """Finds the runs of words that a text and documents share, from an index of all runs of four.

    The words of all documents are concatenated; the index has the start of each run of four.
    """

    def __init__(self, documents: Sequence[Int64]) -> None:
        """`documents` are the word numbers (>= 0) of each."""
        self._starts = np.cumsum([0, *map(len, documents)])
        words = np.concatenate([np.zeros(0, np.int64), *documents])
        keys, at = _keys(words)
        inside = at + SEED <= self._starts[self._owner(at) + 1]
        keys, at = keys[inside], at[inside]
        order = np.argsort(keys, kind="stable")
        self._keys, self._at = keys[order], at[order]

    def find(self, text: Int64) -> Runs:
        """All runs of at least four words; words that no document has are -1 in `text`.

        If there are too many places, the most frequent seeds are skipped, which may split a run.
        """
        keys, at = _keys(text)
        low = np.searchsorted(self._keys, keys, side="left")
        count = np.searchsorted(self._keys, keys, side="right") - low
        if count.sum() > _MOST:
            rarest = np.argsort(count, kind="stable")
            few = rarest[np.cumsum(count[rarest]) <= _MOST]
            at, low, count = at[few], low[few], count[few]
        start = np.repeat(at, count)
        step = np.arange(len(start)) - np.repeat(np.cumsum(count) - count, count)
        place = self._at[np.repeat(low, count) + step]
        # Neighbouring seeds at the same distance are one run; none reaches over the end of a
        # document, for no seed does.
        order = np.lexsort((start, place - start))
        start, place = start[order], place[order]
        goes_on = (np.diff(start) == 1) & (np.diff(place) == 1)
        begins = np.flatnonzero(np.append(True, ~goes_on)[: len(start)])
        length = np.diff(np.append(begins, len(start))) + SEED - 1
        start, place = start[begins], place[begins]
        document = self._owner(place)
        begin, end = self._starts[document], self._starts[document + 1]
        order = np.argsort(start, kind="stable")
        columns = (document, start, place - begin, length, end - begin)
        return Runs(*(column[order] for column in columns))

    def _owner(self, places: Int64) -> Int64:
        """The document in which each place is; empty ones own nothing."""
        return np.searchsorted(self._starts, places, side="right") - 1


def _keys(words: Int64) -> tuple[_Keys, Int64]:
    """A key for each run of SEED known words, and where it begins.

    A key is 64 bits: two different runs share one by chance once in 10^19 pairs.
    """
    n = max(0, len(words) - SEED + 1)
    keys = np.zeros(n, np.uint64)
    known = np.ones(n, bool)
    for step in range(SEED):
        part = words[step : step + n]
        known &= part >= 0
        mixed = (part.astype(np.uint64) + np.uint64(1)) * _MIX[step]
        keys ^= mixed ^ (mixed >> np.uint64(29))
        keys *= _MIX[(step + 1) % SEED]
    return keys[known], np.flatnonzero(known)


def _explained(pieces: Sequence[Span], words: int) -> bool:
    """Whether the pieces cover the whole text, and each is a whole document."""
    covered = np.zeros(words, bool)
    for piece in pieces:
        covered[piece.start : piece.stop] = True
    return bool(covered.all()) and len({piece.document for piece in pieces}) == len(pieces)
