"""How alike queries and the evidence they missed are: words that they share, and cosines.

Words are those of the lexical retrievers; cosines are of an embedding model's vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.analyze.causes import Flags
from harness.analysis.analyze.pieces import EMPTY, Pieces, Rows
from harness.datasets.reader import Dataset, DatasetQrels
from harness.retrievers.bm25.tokenizer import Tokenizer

Terms = frozenset[int]
Embed = Callable[[Sequence[str]], npt.NDArray[np.floating[Any]]]


class WordSimilarity:
    """For each missed piece: `shared`, the query's words that a document of it has, as written.

    Arrays of shape (pieces,): `counts`, how many those are; `only_names`, there are some, and all
    are names of speakers of its haystack; `names_another`, the query names a speaker of the
    haystack, and not the piece's own.
    """

    def __init__(self, dataset: Dataset, judged: DatasetQrels, missed: Pieces) -> None:
        self._words = Tokenizer()
        self._dataset, self._missed = dataset, missed
        self._names: dict[int, dict[str, Terms]] = {}
        self._known: dict[str, Terms] = {}
        self._texts: list[str] = dataset.query_table["text"].to_pylist()
        texts = self._texts
        speakers = dataset.documents.column("speaker")
        self.shared: list[tuple[str, ...]] = []
        self.counts = np.zeros(len(missed), np.int64)
        self.only_names: Flags = np.zeros(len(missed), bool)
        self.names_another: Flags = np.zeros(len(missed), bool)
        documents = judged.document[missed.judgements]
        self._read: dict[int, str] = {}
        self._contents(np.unique(documents[documents >= 0]))
        for at, query in enumerate(missed.query.tolist()):
            carriers = judged.document[missed.carriers(at)]
            parts = [self._terms(self._read[row]) for row in carriers.tolist() if row >= 0]
            mine = self._terms(texts[query])
            terms = mine.intersection(frozenset[int]().union(*parts))
            self.counts[at] = len(terms)
            self.shared.append(self._written(texts[query], terms))
            names = self._names_of(int(dataset.query_haystack[query]))
            every = frozenset[int]().union(*names.values())
            self.only_names[at] = len(terms) > 0 and terms <= every
            own = speakers[int(missed.document[at])].as_py() if missed.document[at] >= 0 else None
            named = {name for name, of_name in names.items() if of_name <= mine}
            self.names_another[at] = bool(named) and own is not None and own not in named

    def more_in(self, places: Rows) -> Flags:
        """More than half of the places, (pieces, k), share more words than the piece does.

        Pieces that share none, or names alone, are not looked at.
        """
        result = np.zeros(len(self.shared), bool)
        for at in np.flatnonzero((self.counts > 0) & ~self.only_names):
            rows = places[at][places[at] >= 0]
            mine = self._terms(self._texts[int(self._missed.query[at])])
            contents = self._contents(rows)
            more = sum(len(mine & self._terms(text)) > self.counts[at] for text in contents)
            result[at] = 2 * more > int((places[at] != EMPTY).sum())
        return result

    def _terms(self, text: str) -> Terms:
        """The words of a text as numbers; those of a text are looked up once."""
        if text not in self._known:
            self._known[text] = frozenset(self._words.terms(text).tolist())
        return self._known[text]

    def _contents(self, rows: Rows) -> list[str]:
        """Texts of documents, each read once."""
        new = [row for row in rows.tolist() if row not in self._read]
        texts = self._dataset.documents.contents(np.array(new, np.int32))
        self._read.update(zip(new, texts, strict=True))
        return [self._read[row] for row in rows.tolist()]

    def _written(self, text: str, terms: Terms) -> tuple[str, ...]:
        """The words of a text whose terms are among these; one word a term."""
        found: dict[int, str] = {}
        for word in re.findall(r"\w+", text) if len(terms) else ():
            for term in self._terms(word) & terms:
                found.setdefault(term, word)
        return tuple(found.values())

    def _names_of(self, haystack: int) -> dict[str, Terms]:
        """The terms of each speaker's name."""
        if self._dataset.documents.lack("speaker") == len(self._dataset.documents):
            return {}
        if haystack not in self._names:
            rows = self._dataset.haystack_rows(haystack)
            names = self._dataset.documents.column("speaker", rows).unique().drop_null()
            terms = {name: self._terms(name) for name in names.to_pylist()}
            self._names[haystack] = {name: of for name, of in terms.items() if of}
        return self._names[haystack]


def similarities(dataset: Dataset, missed: Pieces, embed: Embed) -> npt.NDArray[np.float64]:
    """The cosine of each piece's document with its query, (pieces,); NaN without a document.

    `embed` gives vectors of length 1, shape (texts, dimension); each text is embedded once.
    """
    cosines = np.full(len(missed), np.nan)
    there = np.flatnonzero(missed.document >= 0)
    if len(there):
        asked, query = np.unique(missed.query[there], return_inverse=True)
        rows, document = np.unique(missed.document[there], return_inverse=True)
        of_queries = embed(dataset.query_table["text"].take(asked.tolist()).to_pylist())
        of_documents = embed(dataset.documents.contents(rows))
        cosines[there] = (of_queries[query] * of_documents[document]).sum(axis=1)
    return cosines
