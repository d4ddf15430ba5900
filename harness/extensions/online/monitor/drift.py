"""Compares the words of unlabelled queries in the window with those of the labelled queries.

* **Divergence**: the Jensen-Shannon divergence in bits, from 0 (equal word frequencies) to 1 (no
  common word). A sample of the same queries diverges too. So the labelled queries are split into
  random halves `SPLITS` times, and each half is compared with samples of the other (their 95th
  percentile is the *level*) and with the new queries (their mean is the divergence). The level is
  conservative: a mixture with a tenth of other queries seldom exceeds it.
* **Unseen words**: the share of queries with a word that no labelled query has, and the share of
  labelled queries with a word that no *other* labelled query has.

Only word counts are stored, by block.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from harness.extensions.online.monitor.records import DriftStats
from harness.io.scripts import terms

SPLITS = 20
BLOCKS = 20
"""Number of blocks in the window; the window moves by one block at a time."""
HASHED = 1024
"""Hash buckets for words that no labelled query has."""
MOST = 5000
"""Maximum number of labelled queries in a split; more are sampled at random."""
MINIMUM = 20
"""Minimum number of labelled queries for splits, and of new queries for a measurement."""

CAVEAT = (
    "Drift compares words only. It shows that queries differ from the labelled ones, not that "
    "results are worse; it misses a change of meaning in the same words."
)

Counts = npt.NDArray[np.int64]
Half = tuple[Counts, Counts]
"""The concatenated words of some queries, and the number of words of each query."""


class Drift:
    """Compares the words of the last queries with those of the labelled queries."""

    def __init__(self, texts: Sequence[str], window: int, seed: int = 0) -> None:
        """`texts` of the labelled queries, `window` in queries."""
        words = [self.words(text) for text in texts if text]
        self._vocabulary = {word: i for i, word in enumerate(sorted(set().union(*words)))}
        self._size = len(self._vocabulary) + HASHED
        self._per_block = max(1, window // BLOCKS)
        self.measurable = len(words) >= MINIMUM
        self._labelled = words
        # Share of labelled queries with a word that no other labelled query has.
        holders = Counter(word for one in words for word in set(one))
        unique = [any(holders[word] == 1 for word in one) for one in words]
        self.unseen_level = sum(unique) / len(words) if len(words) > 1 else None
        self._splits = self._halves(seed) if self.measurable else []
        self._levels: dict[int, float] = {}
        # One row per block: word counts; the last columns count all requests, unlabelled queries,
        # and unlabelled queries with an unseen word. The row at `at` is being filled.
        self.blocks = np.zeros((BLOCKS, self._size + 3), np.int64)
        self.at = 0

    @staticmethod
    def words(text: str) -> list[str]:
        """Returns the words of a query, in lower case."""
        return terms(text.lower())

    def add(self, texts: Iterable[str | None]) -> None:
        """Counts requests: query texts, None for a labelled query or one without a text.

        When the newest block is full, the oldest is overwritten.
        """
        if not self.measurable:
            return
        known = self._vocabulary
        base = len(known)
        for text in texts:
            if self.blocks[self.at, -3] >= self._per_block:
                self.at = (self.at + 1) % BLOCKS
                self.blocks[self.at] = 0
            row = self.blocks[self.at]
            row[-3] += 1
            if not text:
                continue
            unseen = False
            for word in self.words(text):
                place = known.get(word)
                if place is None:
                    # The same bucket in every process, unlike hash().
                    code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
                    unseen, place = True, base + code % HASHED
                row[place] += 1
            row[-2] += 1
            row[-1] += unseen

    def measure(self) -> DriftStats | None:
        """Measures divergence and unseen words of the unlabelled queries, with their levels.

        None for fewer than `MINIMUM` labelled queries; values are None for fewer new ones.
        """
        if not self.measurable:
            return None
        total = self.blocks.sum(axis=0)
        n = int(total[-2])
        divergence = level = None
        if n >= MINIMUM:
            divergence = float(np.mean([_divergence(total[:-3], half) for _, half in self._splits]))
            level = self._level(n)
        return DriftStats(
            n=n,
            requests=int(total[-3]),
            labelled=len(self._labelled),
            divergence=divergence,
            level=level,
            excess=None if divergence is None or level is None else divergence - level,
            unseen_rate=None if divergence is None else int(total[-1]) / n,
            labelled_unseen_rate=None if divergence is None else self.unseen_level,
            caveat=CAVEAT,
        )

    def _halves(self, seed: int) -> list[tuple[Half, Counts]]:
        """Returns for each split one half of the labelled queries, and the other's word counts."""
        rng = np.random.default_rng(seed)
        rows = [np.array([self._vocabulary[w] for w in words], int) for words in self._labelled]
        found = []
        for _ in range(SPLITS):
            order = rng.permutation(len(rows))[:MOST]
            middle = len(order) // 2
            mine, other = [[rows[i] for i in part] for part in (order[:middle], order[middle:])]
            counts = np.bincount(np.concatenate(other), minlength=self._size)
            found.append(((np.concatenate(mine), np.array([len(r) for r in mine])), counts))
        return found

    def _level(self, n: int) -> float:
        """Returns the 95th percentile for samples of n queries, n rounded down; deterministic."""
        step = 1 << max(n.bit_length() - 3, 0)
        n = n // step * step
        if n not in self._levels:
            rng = np.random.default_rng(n)
            found = []
            for (words, sizes), half in self._splits:
                for _ in range(5):
                    times = rng.multinomial(n, np.full(len(sizes), 1 / len(sizes)))
                    drawn = np.bincount(words, np.repeat(times, sizes), minlength=self._size)
                    found.append(_divergence(drawn.astype(np.int64), half))
            self._levels[n] = float(np.quantile(found, 0.95))
        return self._levels[n]


def _divergence(a: Counts, b: Counts) -> float:
    """Returns the Jensen-Shannon divergence, in bits, of the distributions of two counts.

    SciPy's jensenshannon returns its square root, which is NaN if rounding makes it negative.
    """
    if not a.sum() or not b.sum():
        return float("nan")
    p, q = a / a.sum(), b / b.sum()
    m = (p + q) / 2
    return float((_entropy(m)) - (_entropy(p) + _entropy(q)) / 2)


def _entropy(p: npt.NDArray[np.float64]) -> float:
    positive = p[p > 0]
    return float(-(positive * np.log2(positive)).sum())
