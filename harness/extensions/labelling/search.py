"""Searches the documents of a project by words, for evidence that no pooled system returned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from harness.extensions.labelling.project import LabelDocument
from harness.retrievers.bm25.tokenizer import Tokenizer


class DocumentSearch:
    """The words of documents, for searches by the rarity of the words that they share."""

    def __init__(self, documents: Sequence[LabelDocument]) -> None:
        self.documents = documents
        self._words = Tokenizer()
        contents = pa.array([one.content for one in documents], pa.large_string())
        self._terms, lengths = self._words.encode_column(contents)
        self._row = np.repeat(np.arange(len(documents)), lengths)

    def best(self, words: str, n: int) -> list[LabelDocument]:
        """Returns the n documents that share the most and rarest words; ties in file order."""
        score = np.zeros(len(self.documents))
        for stem in set(self._words.stem_text(words)):
            rows = np.unique(self._row[self._terms == self._words.term_of(stem)])
            score[rows] += np.log1p(len(score) / max(len(rows), 1))
        order = np.argsort(-score, kind="stable")[:n]
        return [self.documents[row] for row in order if score[row] > 0]
