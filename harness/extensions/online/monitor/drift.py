"""Compares the words of unlabelled queries in the window with those of the labelled queries.

* **Divergence**: the Jensen-Shannon divergence, in bits from 0 (the same words as often) to 1 (none
  in common). A small sample of the very same queries diverges too, so its *level* is measured: the
  labelled queries are split into random halves `SPLITS` times; as many queries as are new, drawn
  from one half, are compared with the other half, and so are the new ones. The level is the 95%
  point of the former, the divergence the mean of the latter. The level is cautious, as draws repeat
  queries: in simulations the same kind of queries is never above it, a tenth of others seldom.
* **Unseen words**: the share of queries with a word that no labelled query has, and the share of
  labelled queries with a word that no *other* labelled query has.

Limits: the same words can ask for something else, and other words for the same. Drift does not say
that recall is worse, only that the labels say less about what is asked now. Counts of words are
stored by block, no query.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from harness.extensions.online.monitor.records import DriftStats

SPLITS = 20
BLOCKS = 20
"""The window is counted in so many blocks, and moves on by one at a time."""
HASHED = 1024
"""Places for words that no labelled query has."""
MOST = 5000
"""Of more labelled queries than this, so many at random are cut into halves."""
MINIMUM = 20
"""Fewer labelled queries than this cannot be cut into halves; fewer in the window say nothing."""

CAVEAT = (
    "Drift is measured on words alone. It says that other things are asked than were labelled, "
    "not that answers are worse; and a change of meaning in the same words is not seen."
)

_WORD = re.compile(r"\w+")
Counts = npt.NDArray[np.int64]
Half = tuple[Counts, Counts]
"""The words of some queries behind each other, and how many each query has."""


class Drift:
    """Words of the last queries against those of the labelled ones."""

    def __init__(self, texts: Sequence[str], window: int, seed: int = 0) -> None:
        """`texts` of the labelled queries, `window` in queries."""
        words = [self.words(text) for text in texts if text]
        self._vocabulary = {word: i for i, word in enumerate(sorted(set().union(*words)))}
        self._size = len(self._vocabulary) + HASHED
        self._per_block = max(1, window // BLOCKS)
        self.measurable = len(words) >= MINIMUM
        self._labelled = words
        # The share of labelled queries with a word that no other of them has.
        holders = Counter(word for one in words for word in set(one))
        unique = [any(holders[word] == 1 for word in one) for one in words]
        self.unseen_level = sum(unique) / len(words) if len(words) > 1 else None
        self._splits = self._halves(seed) if self.measurable else []
        self._levels: dict[int, float] = {}
        # One row a block: counts of words; in the last columns all requests, queries that are not
        # labelled, and those of them with an unseen word. The row at `at` is being filled.
        self.blocks = np.zeros((BLOCKS, self._size + 3), np.int64)
        self.at = 0

    @staticmethod
    def words(text: str) -> list[str]:
        """The words of a query, in lower case."""
        return _WORD.findall(text.lower())

    def add(self, texts: Iterable[str | None]) -> None:
        """Count requests in: texts of queries, None for a labelled one and one without a text.

        The oldest block makes room when the newest is full.
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
                    # The same place in every process, unlike that of hash().
                    code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
                    unseen, place = True, base + code % HASHED
                row[place] += 1
            row[-2] += 1
            row[-1] += unseen

    def measure(self) -> DriftStats | None:
        """Measures divergence and unseen words of the unlabelled queries, with their levels.

        None for fewer than `MINIMUM` labelled queries; numbers are None for fewer new ones.
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
        """One half of the labelled queries, and the counts of words of the other."""
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
        """The 95% point of samples of n labelled queries, by steps of n; always the same."""
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
    """Jensen-Shannon divergence in bits of the distributions that two counts make.

    SciPy's jensenshannon takes the root of it, which is NaN where rounding left it below 0.
    """
    if not a.sum() or not b.sum():
        return float("nan")
    p, q = a / a.sum(), b / b.sum()
    m = (p + q) / 2
    return float((_entropy(m)) - (_entropy(p) + _entropy(q)) / 2)


def _entropy(p: npt.NDArray[np.float64]) -> float:
    there = p[p > 0]
    return float(-(there * np.log2(there)).sum())
