"""How near in meaning queries and missed evidence are: cosines of MiniLM's vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.verdicts.analyze.pieces import Pieces

Embed = Callable[[Sequence[str]], npt.NDArray[np.floating[Any]]]


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
