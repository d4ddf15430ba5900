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
"""Minimum words of a run; shorter runs occur in most texts."""

# Odd numbers with many bits set (as in SplitMix64); a key mixes SEED words into one.
_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64
)
_MOST = 1 << 21
"""Maximum number of seed matches of a text; only texts that repeat one phrase have more."""

NEED = (10, 8, 4)
"""Minimum words of a run that is evidence, by the number of its ends (0 to 2) that fit.

An end fits if the text or the document begins (or ends) with it, as after a cut. Chosen on half of
LoCoMo, see tests/benchmarks/matching.md.
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
        """Index of the text's first word after the run."""
        return self.start + self.length

    def fits(self, words: int) -> int:
        """Returns how many ends fit, 0 to 2, in a text of `words` words."""
        begins = self.start == 0 or self.first == 0
        ends = self.stop == words or self.first + self.length == self.size
        return int(begins) + int(ends)


Found = tuple[list[Span], Way]
"""Spans in the order of the text, and the least certain of their ways of agreement."""

_WAYS = [Way.EXACT, Way.ESCAPED, Way.NORMALISED]


class Containment:
    """Finds the documents of a haystack that a text contains or is contained in."""

    def __init__(
        self, written: Sequence[Written], words: Sequence[Int64], names: Sequence[str]
    ) -> None:
        """`written` are the parsed documents, `words` their word numbers, `names` all words."""
        self._written = written
        self._words = words
        self._names = names
        self._runs = RunIndex(words)
        self._short: dict[tuple[int, ...] | str, list[int]] = {}
        self._short_lines: dict[tuple[int, ...] | str, list[int]] = {}
        for document in range(len(written)):
            self._index_short(document)

    def _index_short(self, document: int) -> None:
        """Indexes a document or lines too short for a run by their words, else their text."""
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
        """Returns the documents that a text contains or is contained in; None without any."""
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
        """Returns documents that consist of these few words, else those with such a line."""
        key = tuple(chunk.numbers.tolist()) or chunk.written.text
        n = len(chunk.words)
        found = self._short.get(key) or self._short_lines.get(key, []) if key else []
        pieces = [Span(document, 0, 0, n, n) for document in found]
        best = max((self._agreement(chunk, piece) for piece in pieces), default=0)
        return [piece for piece in pieces if self._agreement(chunk, piece) == best]

    def _pieces(self, chunk: Chunk) -> Iterator[Span]:
        """Yields the runs that may be evidence, as spans."""
        runs = self._runs.find(chunk.numbers)
        # An end may fit once a word that was cut in two is added.
        begins = (runs.start <= 1) | (runs.first == 0)
        stop = runs.start + runs.length
        ends = (stop >= len(chunk.words) - 1) | (runs.first + runs.length == runs.size)
        enough = runs.length >= np.array(NEED)[begins.astype(int) + ends] - 2
        columns = (runs.document, runs.start, runs.first, runs.length, runs.size)
        for row in zip(*(column[enough].tolist() for column in columns), strict=True):
            yield self._with_cut_words(chunk, Span(*row))

    def _with_cut_words(self, chunk: Chunk, piece: Span) -> Span:
        """Extends a span by the partial words with which the text begins and ends."""
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
        """Counts common words of the line's prefix in the text and in the document."""
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
        """Returns the next or previous document if the text continues with all of it."""
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
        """Returns how the words of a span agree: as exact text, or only as words.

        A part of a document is exact only in a text that is `explained`; else it is a quote.
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
    """Selects the spans that are evidence, in the order of the text, grouped by equal words.

    Longer spans have priority: words of a longer span are no further evidence, so a short document
    that happens to occur inside another's words is not found. Of documents with equal words of the
    text, those are kept with the best `agreement` of prefixes (common words), then with the most
    fitting ends, then those that consist of just these words.
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
    """Runs of maximum length, as aligned columns in the order of `start`.

    `start` and `first` are the run's first word in the text and in the document, `length` its
    number of words, `size` that of the document.
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
        """Returns all runs of at least four words; -1 in `text` is a word of no document.

        If there are too many matches, the most frequent seeds are skipped, which may split a run.
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
        # Neighbouring seeds at the same distance are one run; no run crosses the end of a document,
        # since no seed does.
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
        """Returns the document of each position; empty documents have none."""
        return np.searchsorted(self._starts, places, side="right") - 1


def _keys(words: Int64) -> tuple[_Keys, Int64]:
    """Returns a key for each run of SEED known words, and its start.

    A key has 64 bits: two different runs have the same key with probability about 1e-19.
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
    """Tests whether spans of distinct documents cover the whole text."""
    covered = np.zeros(words, bool)
    for piece in pieces:
        covered[piece.start : piece.stop] = True
    return bool(covered.all()) and len({piece.document for piece in pieces}) == len(pieces)
