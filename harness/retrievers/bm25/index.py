"""Inverted index: for each term, the documents that contain it and its count in each.

Small corpora are indexed in memory; for large ones see disk_index.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.tokenizer import Ints, Terms

BLOCK = 1 << 16
"""Documents per block, so that a position in a block has two bytes."""

IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class InvertedIndex:
    """Postings of term t: rows `starts[t]` to `starts[t + 1]` of `documents` and `counts`.

    The documents of a term ascend. `lengths`, shape (documents,), are in terms.
    """

    starts: Ints
    documents: IntArray
    counts: IntArray
    lengths: IntArray

    def postings(self, term: int) -> tuple[IntArray, IntArray]:
        """Returns the documents of a term, and its count in each."""
        part = slice(self.starts[term], self.starts[term + 1])
        return self.documents[part], self.counts[part]

    def window_bounds(self, term: int, size: int) -> list[int]:
        """Returns the bounds of a term's rows in each window of `size` documents."""
        owners, start = self.postings(term)[0], int(self.starts[term])
        ends = np.arange(0, len(self.lengths) + size, size).clip(max=len(self.lengths))
        # Same dtype: else NumPy would convert all owners first.
        bounds: list[int] = (start + np.searchsorted(owners, ends.astype(owners.dtype))).tolist()
        return bounds

    def rows(self, start: int, end: int) -> tuple[IntArray, IntArray]:
        """Returns documents and counts of some rows."""
        return self.documents[start:end], self.counts[start:end]

    def document_frequencies(self, terms: Sequence[int]) -> list[int]:
        """Returns the document frequency of each term."""
        return [int(self.starts[term + 1] - self.starts[term]) for term in terms]


def index_in_memory(terms: Terms, lengths: Ints) -> tuple[Terms, InvertedIndex]:
    """Returns the distinct terms, ascending, and the index of terms given by document."""
    own, frequencies, documents, counts = postings_of(terms, lengths)
    return own, InvertedIndex(
        np.concatenate([[0], np.cumsum(frequencies)]), documents, counts, lengths
    )


def postings_of(terms: Terms, lengths: Ints) -> tuple[Terms, Ints, Ints, Ints]:
    """Returns distinct terms, their document frequencies, and by term documents and counts."""
    documents = np.repeat(np.arange(len(lengths)), lengths)
    order = _by_number(terms)
    terms, documents = terms[order], documents[order]
    new_term, new = np.ones(len(terms), bool), np.ones(len(terms), bool)
    new_term[1:] = terms[1:] != terms[:-1]
    # Repeated terms of a document are adjacent after sorting.
    new[1:] = new_term[1:] | (documents[1:] != documents[:-1])
    first = np.flatnonzero(new)
    counts = np.diff(first, append=len(terms))
    begins = np.flatnonzero(new_term[first])
    frequencies = np.diff(begins, append=len(first))
    return terms[first[begins]], frequencies, documents[first], counts


def _by_number(terms: Terms) -> Ints:
    """Returns a stable order by number, in 16-bit steps, for which NumPy uses radix sort."""
    order = np.argsort(terms.astype(np.uint16), kind="stable")
    high = terms >> 16
    return order[np.argsort(high[order].astype(np.uint16), kind="stable")] if high.any() else order
