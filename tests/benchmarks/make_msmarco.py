"""Writes a synthetic MS MARCO passage collection, in the official files' names and format.

What is published of the real one is met: 8,841,823 passages, 3.3 GB, 56 words a passage, about
2.7 million different stems (Anserini's count of its index), 6,980 questions of 6 words with 1.07
judged passages each, a few per cent of passages with letters outside ASCII. Words are invented and
drawn by a Zipf-Mandelbrot law, but for the stop words of English, which stand where they stand in
English: first. A question is made of words of its passage, rarer ones likelier; of nobody's text
is there a sentence in it. The same seed and size give the same bytes.

    python -m tests.benchmarks.make_msmarco FOLDER [--passages N] [--queries N] [--seed N]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

PASSAGES, QUERIES, JUDGED = 8_841_823, 6_980, 1.07
FILES = ("collection.tsv", "queries.dev.small.tsv", "qrels.dev.small.tsv")
_STOPWORDS = (
    b"the of and to in is that it for as with be on by are this at an or not from was will if "
    b"no into but such their then there these they"
).split()
_VOCABULARY = 5_000_000
_EXPONENT, _SHIFT = 1.4, 20.0
_WORDS = (56.0, 23.0)  # a passage: mean and standard deviation
_ASKED_FOR = 300_000  # ranks that questions use
_BLOCK = 50_000
_ENDS = np.array([b" ", b", ", b". ", b" (", b") ", b"-"], dtype="S2")
_END_SHARES = (0.84, 0.06, 0.06, 0.01, 0.01, 0.02)
_ACCENTED = "é".encode()

Ints = npt.NDArray[np.int64]


class Vocabulary:
    """Invented words by rank: bytes one behind the other, and where each starts."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        ranks = np.arange(_VOCABULARY)
        # Frequent words are short; a third of the rare ones are numbers, codes and misspellings.
        lengths = np.clip(rng.poisson(3.1 + 0.45 * np.log1p(ranks)), 2, 24)
        letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
        weights = 1 / (np.arange(26) + 4.0)
        drawn = rng.choice(letters, int(lengths.sum()), p=weights / weights.sum())
        digits = np.repeat((ranks > 20_000) & (rng.random(_VOCABULARY) < 0.3), lengths)
        drawn[digits] = rng.integers(48, 58, int(digits.sum()), dtype=np.uint8)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        head = np.frombuffer(b"".join(_STOPWORDS), np.uint8)
        first = len(_STOPWORDS)
        lengths[:first] = [len(word) for word in _STOPWORDS]
        self.bytes = np.concatenate([head, drawn[starts[first] :]])
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        share = 1 / (np.arange(_VOCABULARY) + _SHIFT) ** _EXPONENT
        self._cumulated = np.cumsum(share / share.sum())

    def draw(self, n: int, rng: np.random.Generator) -> Ints:
        """Ranks of n words."""
        found = np.searchsorted(self._cumulated, rng.random(n), side="right")
        return np.minimum(found, _VOCABULARY - 1)

    def text(self, ranks: Ints, ends: Ints, capital: npt.NDArray[np.bool_]) -> bytes:
        """The words of `ranks`, each with what ends it: `ends` counts in _ENDS; -1: a line's end,
        which is left to the caller to fill (one byte of zero)."""
        lengths = self.starts[ranks + 1] - self.starts[ranks]
        end_lengths = np.where(ends < 0, 1, np.char.str_len(_ENDS)[ends])
        total = lengths + end_lengths
        at = np.concatenate([[0], np.cumsum(total)])
        inside = np.arange(at[-1]) - np.repeat(at[:-1], total)
        source = np.repeat(self.starts[ranks], total) + inside
        out = self.bytes[np.minimum(source, len(self.bytes) - 1)]
        for i in range(2):
            where = end_lengths > i
            signs = _ENDS.view(np.uint8).reshape(-1, 2)[:, i]
            out[(at[:-1] + lengths + i)[where]] = np.where(ends < 0, 0, signs[ends])[where]
        first = at[:-1][capital]
        out[first] -= 32 * ((out[first] >= 97) & (out[first] <= 122)).astype(np.uint8)
        return out.tobytes()


def passages(
    vocabulary: Vocabulary, n: int, seed: int
) -> Iterator[tuple[int, list[bytes], Ints, Ints]]:
    """Blocks of passages: the first one's number, texts, words' ranks, and where each starts."""
    for start in range(0, n, _BLOCK):
        rng = np.random.default_rng([seed, 2, start])
        size = min(_BLOCK, n - start)
        lengths = np.clip(rng.normal(*_WORDS, size), 5, 220).astype(np.int64)
        at = np.concatenate([[0], np.cumsum(lengths)])
        ranks = vocabulary.draw(int(at[-1]), rng)
        ends = rng.choice(len(_ENDS), len(ranks), p=_END_SHARES)
        capital = np.concatenate([[True], ends[:-1] == 2])
        ends[at[1:] - 1] = -1
        texts = vocabulary.text(ranks, ends, capital).split(b"\0")[:size]
        for i in np.flatnonzero(rng.random(size) < 0.04):
            texts[i] = texts[i].replace(b"e", _ACCENTED, 3)
        yield start, texts, ranks, at


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=PASSAGES)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary(options.seed)
    rng = np.random.default_rng([options.seed, 3])
    chosen = np.sort(rng.permutation(options.passages)[: options.queries])
    collection, queries, qrels = ((options.folder / name).open("wb") for name in FILES)
    with collection, queries, qrels:
        for start, texts, ranks, at in passages(vocabulary, options.passages, options.seed):
            numbers = range(start, start + len(texts))
            lines = (b"%d\t%s\n" % pair for pair in zip(numbers, texts, strict=True))
            collection.write(b"".join(lines))
            low, high = np.searchsorted(chosen, [start, start + len(texts)])
            for number in chosen[low:high].tolist():
                own = ranks[at[number - start] : at[number - start + 1]]
                own = own[(own >= len(_STOPWORDS)) & (own < _ASKED_FOR)]
                take = min(len(own), int(np.clip(rng.poisson(3.4), 1, 9)))
                # Neither as often as passages have them, nor all alike.
                share = own**0.25 / (own**0.25).sum()
                words = rng.choice(own, take, replace=False, p=share)
                words = np.concatenate([rng.integers(0, len(_STOPWORDS), 2), words])
                ends = np.zeros(len(words), np.int64)
                plain = np.zeros(len(words), bool)
                text = vocabulary.text(words, ends, plain).strip()
                queries.write(b"%d\t%s\n" % (number + 1_000_000, text))
                judged = {number}
                if rng.random() < JUDGED - 1:
                    judged.add(int(rng.integers(options.passages)))
                for one in sorted(judged):
                    qrels.write(b"%d 0 %d 1\n" % (number + 1_000_000, one))


if __name__ == "__main__":
    main()
