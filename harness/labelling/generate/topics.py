"""What a document is about, without a model: phrases frequent in it and rare in the collection.

A phrase is one to three words in a row, without stop words (English ones: NLTK's list) and
across no mark. It is scored tf * (idf of its words, summed), where tf is how often the phrase
stands in the document and idf = ln(1 + N / df) over the N distinct texts of the collection. The
title comes before all of them where it has at most four words. This is Salton's tf-idf on the
candidate phrases of RAKE (Rose et al. 2010, cut at stop words and marks).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.stopwords import ENGLISH_LONG
from harness.scoring.matching.words import WORD, Vocabulary, plain

Int64 = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

LONGEST = 3
"""Words of a phrase."""
LONGEST_TITLE = 4
"""Words of a title that is taken as a topic: a longer one would quote the document."""
_FUNCTION_WORDS = """
also although always among another anything away back came come could either else etc even ever
every everything first get gets getting go goes going gone got however i'd i'll i'm i've keep kept
know let like made make many may maybe might much must near need never nothing often ok okay one
onto put quite rather really said say says see seen shall since someone something still take taken
than thing things though thus together took toward towards two upon us use used using usually via
want wants way went whether whose within without would yes yet
"""  # that NLTK's list lacks
_BREAK = -1
# A mark, the end of a paragraph and the start of a list's item end a phrase; a line that is only
# wrapped does not. 4.6 and 1,260 are one word each.
_NUMBER = r"\d+(?:[.,:]\d+)+"
_MARK = r"[.,:;!?…(){}\[\]\"“”„«»|<>`#*=]|\n(?=\s*(?:\n|[-+>]|\d+[.)]\s))"
_TOKEN = re.compile(rf"{_NUMBER}|{WORD.pattern}|{_MARK}")
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Topic:
    """A phrase as the document has it; `words` compared; `holders`: rows that hold it, sorted.

    The document's own row is one of the holders.
    """

    text: str
    words: tuple[str, ...]
    holders: Int64


class Topics:
    """The phrases of a collection, kept as the numbers of its words."""

    def __init__(
        self, titles: Sequence[str], contents: Sequence[str], same: Int64, at_once: int = 1 << 20
    ) -> None:
        """`same` has, for each row, the first row with an equal text: a text counts once.

        About `at_once` words are looked at at once.
        """
        self._titles, self._contents, self._at_once = titles, contents, at_once
        self._vocabulary = Vocabulary()
        self._words, self._starts = _cut(contents, self._vocabulary)
        self._first = same == np.arange(len(same))
        self._rarity = self._idf()
        self._usable = self._usable_words()

    def of(self, rows: Int64, number: int) -> list[list[Topic]]:
        """Up to `number` topics of each row, best first: title, then phrases by score.

        Topics of one document share no word. Phrases that no other text holds come first.
        """
        found = self._candidates(rows, 3 * number + 8)
        holders = self._holders(found)
        return [self._chosen(row, found[i], holders, number) for i, row in enumerate(rows.tolist())]

    def _idf(self) -> npt.NDArray[np.float64]:
        """The rarity of each word, by its number; of a break (-1, so the last one), 0."""
        n = len(self._vocabulary.numbers)
        frequency = np.zeros(n, np.int64)
        for low, high in self._blocks():
            words, document = self._part(low, high)
            keep = (words >= 0) & self._first[document]
            pairs = np.unique(document[keep] * n + words[keep])
            frequency += np.bincount(pairs % max(n, 1), minlength=n)
        return np.append(np.log1p(self._first.sum() / np.maximum(frequency, 1)), 0.0)

    def _usable_words(self) -> npt.NDArray[np.int8]:
        """By number: 0 for a stop word and a break, 1 where it may be in a phrase, 2 alone too."""
        stop = {plain(word) for word in (*ENGLISH_LONG, *_FUNCTION_WORDS.split())}
        of_word = [
            0 if word in stop else 2 if word.isalpha() and len(word) > 2 else 1
            for word in self._vocabulary.numbers
        ]
        return np.array([*of_word, 0], np.int8)

    def _blocks(self) -> list[tuple[int, int]]:
        """Rows from and to, of about so many words as are looked at at once."""
        cuts, low = list[tuple[int, int]](), 0
        n = len(self._starts) - 1
        while low < n:
            high = (
                int(np.searchsorted(self._starts, self._starts[low] + self._at_once, "right")) - 1
            )
            high = min(max(high, low + 1), n)
            cuts.append((low, high))
            low = high
        return cuts

    def _part(self, low: int, high: int) -> tuple[Int64, Int64]:
        """Words of the rows from low to high, and the row that each stands in."""
        words = self._words[self._starts[low] : self._starts[high]].astype(np.int64)
        sizes = np.diff(self._starts[low : high + 1])
        return words, np.repeat(np.arange(low, high), sizes)

    def _candidates(self, rows: Int64, keep: int) -> list[list[tuple[int, int]]]:
        """For each row where its best phrases begin, and of how many words they are."""
        wanted = np.zeros(len(self._contents), bool)
        wanted[rows] = True
        of_row: dict[int, list[tuple[int, int]]] = {}
        for low, high in self._blocks():
            words, document = self._part(low, high)
            parts = [self._scored(words, document, wanted, n) for n in range(1, LONGEST + 1)]
            row, place, score, length = (
                np.concatenate(column) for column in zip(*parts, strict=True)
            )
            # Of equal scores the longer phrase, then the one that stands earlier.
            order = np.lexsort((place, -length, -score, row))
            row, place, length = row[order], place[order], length[order]
            rank = np.arange(len(row)) - np.searchsorted(row, row)
            best = (column[rank < keep].tolist() for column in (row, place, length))
            for r, p, n in zip(*best, strict=True):
                of_row.setdefault(r, []).append((int(self._starts[low]) + p, n))
        return [self._titled(row, of_row.get(row, [])) for row in rows.tolist()]

    def _scored(
        self, words: Int64, document: Int64, wanted: npt.NDArray[np.bool_], n: int
    ) -> tuple[Int64, Int64, npt.NDArray[np.float64], Int64]:
        """Rows, first places, scores and lengths of the phrases of n words."""
        usable, rarity = self._usable[words], self._rarity[words]
        size = len(words) - n + 1
        if size <= 0:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, np.zeros(0), nothing
        windows = [slice(i, i + size) for i in range(n)]
        lowest = np.min([usable[w] for w in windows], axis=0)
        highest = np.max([usable[w] for w in windows], axis=0)
        good = (lowest > 0) & (highest > 1) & wanted[document[:size]]
        at = np.flatnonzero(good)
        key = _hashes(words, n)[at] * _ODD ^ _mixed(document[at])
        _, first, tf = np.unique(key, return_index=True, return_counts=True)
        place = at[first]
        score = tf * np.sum([rarity[w][place] for w in windows], axis=0)
        return document[place], place, np.round(score, 9), np.full(len(place), n)

    def _titled(self, row: int, phrases: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The title before the phrases, where it is short and of one piece."""
        length = len(_TOKEN.findall(self._titles[row]))
        start = int(self._starts[row])
        title = self._words[start : start + length]
        if not 0 < length <= LONGEST_TITLE or (title < 0).any():
            return phrases
        if self._usable[title].max() < 2:
            return phrases
        return [(start, length), *(one for one in phrases if one != (start, length))]

    def _holders(self, found: list[list[tuple[int, int]]]) -> dict[tuple[int, int], Int64]:
        """The rows that hold each of these phrases, by its (hash, length)."""
        holders: dict[tuple[int, int], Int64] = {}
        for n in range(1, LONGEST_TITLE + 1):
            places = np.array([p for of in found for p, length in of if length == n], np.int64)
            asked = np.unique(self._hashes_at(places, n))
            if not len(asked):
                continue
            code, row = list[Int64](), list[Int64]()
            for low, high in self._blocks():
                words, document = self._part(low, high)
                hashes = _hashes(words, n)
                at = np.minimum(np.searchsorted(asked, hashes), len(asked) - 1)
                there = np.flatnonzero((asked[at] == hashes) & _whole(words, n))
                pairs = np.unique(at[there] * len(self._contents) + document[there])
                code.append(pairs // len(self._contents))
                row.append(pairs % len(self._contents))
            codes, rows = np.concatenate(code), np.concatenate(row)
            order = np.argsort(codes, kind="stable")
            bounds = np.searchsorted(codes[order], np.arange(len(asked) + 1))
            for i, hash_ in enumerate(asked.tolist()):
                holders[hash_, n] = rows[order[bounds[i] : bounds[i + 1]]]
        return holders

    def _hashes_at(self, places: Int64, n: int) -> Hashes:
        windows = self._words[places[:, None] + np.arange(n)].astype(np.int64)
        return _hashes(windows.ravel(), n)[::n] if len(places) else np.zeros(0, np.uint64)

    def _chosen(
        self,
        row: int,
        places: list[tuple[int, int]],
        holders: dict[tuple[int, int], Int64],
        number: int,
    ) -> list[Topic]:
        """The best phrases of a row that share no word, those of this text alone first."""
        hashes = [(int(self._hashes_at(np.array([p]), n)[0]), n) for p, n in places]
        others = [int(self._first[holders[key]].sum()) > 1 for key in hashes]
        order = sorted(range(len(places)), key=lambda i: (others[i], i))
        chosen, used = list[Topic](), set[int]()
        for i in order:
            place, n = places[i]
            words = self._words[place : place + n].tolist()
            if len(chosen) < number and not used.intersection(words):
                used.update(words)
                text = self._written(row, place - int(self._starts[row]), n)
                compared = tuple(plain(word) for word in WORD.findall(text))
                chosen.append(Topic(text, compared, holders[hashes[i]]))
        return chosen

    def _written(self, row: int, place: int, n: int) -> str:
        """A phrase as it stands in the document; a capital that only begins a sentence is lowered.

        That is one whose word stands somewhere in small letters too.
        """
        found = list(_TOKEN.finditer(self._contents[row]))[place : place + n]
        text = " ".join(self._contents[row][found[0].start() : found[-1].end()].split())
        first = found[0][0]
        if first.istitle() and first.lower() in self._vocabulary:
            return first.lower() + text[len(first) :]
        return text


def _cut(
    texts: Sequence[str], vocabulary: Vocabulary
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Words of all texts as numbers, end to end with a break behind each, and where each begins."""
    parts = list[npt.NDArray[np.int32]]()
    marks = set[str]()
    for text in texts:
        tokens = _TOKEN.findall(text)
        for token in set(tokens):
            if not token[0].isalnum():
                marks.add(token)
        numbers = [_BREAK if t in marks else vocabulary[t] for t in tokens]
        parts.append(np.array([*numbers, _BREAK], np.int32))
    starts = np.cumsum([0, *(len(part) for part in parts)])
    return np.concatenate([np.zeros(0, np.int32), *parts]), starts


def _mixed(numbers: Int64) -> Hashes:
    """Numbers spread over 64 bits (the finaliser of splitmix64)."""
    x = numbers.astype(np.uint64) + _ODD
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = x ^ (x >> np.uint64(31))
    return mixed


def _hashes(words: Int64, n: int) -> Hashes:
    """A hash of the n words from each place on, shape (words - n + 1,)."""
    size = len(words) - n + 1
    if size <= 0:
        return np.zeros(0, np.uint64)
    mixed = _mixed(words)
    hashes = mixed[:size].copy()
    for i in range(1, n):
        hashes = hashes * _ODD + mixed[i : i + size]
    return hashes


def window_hashes(words: Int64, n: int) -> Hashes:
    """Hashes of all runs of n words that have no break (-1) among them."""
    size = len(words) - n + 1
    if size <= 0:
        return np.zeros(0, np.uint64)
    whole: Hashes = _hashes(words, n)[_whole(words, n)]
    return whole


def _whole(words: Int64, n: int) -> npt.NDArray[np.bool_]:
    """Where n words in a row have no break among them."""
    size = max(len(words) - n + 1, 0)
    lowest: Int64 = np.min([words[i : i + size] for i in range(n)], axis=0)
    return lowest >= 0
