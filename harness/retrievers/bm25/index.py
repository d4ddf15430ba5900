"""An inverted index: for each term the documents that have it, and how often each has it.

A small corpus is indexed in memory; for a large one see disk_index.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.tokenizer import Ints, Terms

BLOCK = 1 << 16
"""Documents a block; a place in one is a number of two bytes."""

IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class InvertedIndex:
    """The rows from `starts[t]` to `starts[t + 1]` of `documents` and `counts` are those of term t.

    Documents of a term are in their order. `lengths`, shape (documents,), are in terms.
    """

    starts: Ints
    documents: IntArray
    counts: IntArray
    lengths: IntArray

    def postings(self, term: int) -> tuple[IntArray, IntArray]:
        """Return which documents have a term, and how often each."""
        part = slice(self.starts[term], self.starts[term + 1])
        return self.documents[part], self.counts[part]

    def window_bounds(self, term: int, size: int) -> list[int]:
        """Return the rows between which a term's documents lie in each window of documents."""
        owners, start = self.postings(term)[0], int(self.starts[term])
        ends = np.arange(0, len(self.lengths) + size, size).clip(max=len(self.lengths))
        # Of one kind: else NumPy would copy all owners into another first.
        bounds: list[int] = (start + np.searchsorted(owners, ends.astype(owners.dtype))).tolist()
        return bounds

    def rows(self, start: int, end: int) -> tuple[IntArray, IntArray]:
        """Return documents and counts of some rows."""
        return self.documents[start:end], self.counts[start:end]

    def document_frequencies(self, terms: Sequence[int]) -> list[int]:
        """Return how many documents have each of some terms."""
        return [int(self.starts[term + 1] - self.starts[term]) for term in terms]


def index_in_memory(terms: Terms, lengths: Ints) -> tuple[Terms, InvertedIndex]:
    """Return the different terms, rising, and their index, of all terms document by document."""
    own, frequencies, documents, counts = postings_of(terms, lengths)
    return own, InvertedIndex(
        np.concatenate([[0], np.cumsum(frequencies)]), documents, counts, lengths
    )


def postings_of(terms: Terms, lengths: Ints) -> tuple[Terms, Ints, Ints, Ints]:
    """Return the different terms, how many documents have each; and by term these, with counts."""
    documents = np.repeat(np.arange(len(lengths)), lengths)
    order = _by_number(terms)
    terms, documents = terms[order], documents[order]
    new_term, new = np.ones(len(terms), bool), np.ones(len(terms), bool)
    new_term[1:] = terms[1:] != terms[:-1]
    # A term that a document has twice stands there twice, in neighbouring places.
    new[1:] = new_term[1:] | (documents[1:] != documents[:-1])
    first = np.flatnonzero(new)
    counts = np.diff(first, append=len(terms))
    begins = np.flatnonzero(new_term[first])
    frequencies = np.diff(begins, append=len(first))
    return terms[first[begins]], frequencies, documents[first], counts


def _by_number(terms: Terms) -> Ints:
    """Return a stable order by number: of two bytes NumPy counts, and else it compares."""
    order = np.argsort(terms.astype(np.uint16), kind="stable")
    high = terms >> 16
    return order[np.argsort(high[order].astype(np.uint16), kind="stable")] if high.any() else order
