"""Recall at equal prompt cost: what is found within a budget of tokens, and their count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.records.scores import TokenSummary
from harness.runfiles.arrow import integers
from harness.scoring.arrays import Ints, Values, mean
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ranked
from harness.scoring.resolve import Resolved

BUDGETS = (500, 1000, 2000, 5000)

TOKENIZER = "words+marks"
r"""How tokens are counted, so that anyone can repeat it.

A token is a run of ASCII letters, digits, underscores and non-ASCII bytes of the UTF-8 text, or a
single other visible character: `[\w\x80-\xff]+|[!-~]` on bytes. It needs no vocabulary file and no
model; model tokenizers give more tokens for rare words, so budgets here compare systems with each
other, not with a price list.
"""

_LET_GO = 1 << 28  # bytes of the file
_DENSE = 32  # where one document in so many is read, most pages of the file are
_BLOCK = 1 << 9  # documents: some hundred KB, so that columns of bytes stay in the cache


class TokenBudget:
    """The prompt cost of every prefix of every ranking."""

    def __init__(self, ranked: Ranked, resolved: Resolved, tokens: Ints) -> None:
        """`tokens` (n,) aligns with `resolved`; `ranked` must be in the order as returned."""
        self._ranked = ranked
        starts = np.searchsorted(resolved.query, np.arange(ranked.n + 1))
        total = np.concatenate([[0], np.cumsum(tokens)])
        self.per_query = total[starts[1:]] - total[starts[:-1]]
        self._query = resolved.query
        self._spent = total[1:] - total[starts[resolved.query]]

    def recall(self, budget: int) -> tuple[Values, np.ndarray]:
        """Recall of the longest prefix that costs at most `budget` tokens, and whether the ranking
        ended before the budget was spent (a deeper one might have found more); each (n,)."""
        fits = self._spent <= budget
        cut = np.bincount(self._query[fits], minlength=self._ranked.n)
        ended = (cut == self._ranked.returned) & (self.per_query < budget)
        return Metric("recall")(self._ranked, cut), ended

    def tokens_at(self, cutoff: int, resolved: Resolved) -> Ints:
        """Tokens of each query's top k; shape (n,)."""
        inside = resolved.rank <= cutoff
        spent = np.zeros(self._ranked.n, np.int64)
        np.maximum.at(spent, self._query[inside], self._spent[inside])
        return spent


def token_summary(tokens: Ints) -> TokenSummary:
    """Mean and percentiles over n queries."""
    if len(tokens) == 0:
        return TokenSummary(n=0, mean=None, p50=None, p95=None)
    p50, p95 = np.percentile(tokens, [50, 95])
    found = mean(tokens.astype(float))
    return TokenSummary(n=len(tokens), mean=found, p50=float(p50), p95=float(p95))


class TokenCounts:
    """Tokens of a dataset's documents, title included; each document is counted once."""

    def __init__(self, dataset: Dataset) -> None:
        self._documents = dataset.documents
        self._counts = np.full(len(dataset.documents), -1, np.int32)

    def of(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Tokens of the documents at `rows`; shape of `rows`. -1 rows cost nothing."""
        held = rows[rows >= 0]
        new = np.sort(held[self._counts[held] < 0])
        self._count(new[np.diff(new, prepend=-1) > 0])
        counts = np.zeros(len(rows), np.int64)
        counts[rows >= 0] = self._counts[held]
        return counts

    def _count(self, rows: npt.NDArray[np.int32]) -> None:
        """Count some documents, in their order: chunk by chunk, so that memory stays flat."""
        self._counts[rows] = 0
        for name in ("text", "title"):
            if not len(rows) or self._documents.lack(name) == len(self._documents):
                continue
            starts = np.array(self._documents.starts)
            cuts = np.searchsorted(rows, starts)
            read = 0
            for number in np.flatnonzero(np.diff(cuts)).tolist():
                part = rows[cuts[number] : cuts[number + 1]]
                chunk = self._documents.chunk(name, number, part - starts[number])
                if len(part) * _DENSE > len(chunk):
                    self._documents.fetch(chunk)
                for some in np.array_split(part, -(-len(part) // _BLOCK)):
                    texts = chunk.take(integers(some - starts[number]))
                    self._counts[some] += _count(texts)
                read += chunk.nbytes
                if read > _LET_GO:
                    self._documents.release()
                    read = 0


def token_counts(dataset: Dataset, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Tokens of the documents at `rows`, title included; shape of `rows`. -1 rows cost nothing."""
    return TokenCounts(dataset).of(rows)


def text_tokens(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Tokens of each text."""
    return _count(pa.array(texts, pa.string()))


def _count(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Tokens of each string; null counts 0."""
    if len(texts) == 0 or texts.buffers()[2] is None:
        return np.zeros(len(texts), np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ]
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    # Comparisons of bytes, which wrap below zero: NumPy does them many at a time.
    word = (data | 0x20) - 97 < 26
    word |= data - 48 < 10
    word |= data >= 128
    word |= data == 95
    visible = (data - 33 < 94) | word
    begins = visible.copy()
    begins[1:] &= ~(word[1:] & word[:-1])
    starts = offsets[:-1] - offsets[0]
    sizes = np.diff(offsets)
    # A word that begins a document is a token even when the document before ended in a word.
    filled = sizes > 0
    first = starts[filled]
    begins[first] = visible[first]
    counts = np.zeros(len(texts), np.int64)
    if len(first):
        # Small sums are added up faster, and no document has more tokens than bytes.
        small = np.uint16 if sizes.max() < 1 << 16 else np.int64
        counts[filled] = np.add.reduceat(begins.view(np.uint8), first, dtype=small)
    return counts
