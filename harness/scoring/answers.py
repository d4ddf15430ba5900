"""What was returned, against the reference answers: `success@k` and the metrics of answer_text.py.

A block of scores like a protocol's, but of texts instead of documents: it says whether a reader of
the top k could have answered, not whether the evidence was found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.dataset.reader import Dataset
from harness.scoring.answer_text import answers_in_top
from harness.scoring.cells import Column, Flags
from harness.scoring.protocols import Protocol
from harness.scoring.resolve import Resolved

ANSWERS = Protocol(
    name="answers",
    version=1,
    about="returned texts against the reference answers, best of the top k; queries that have none "
    "are not scored",
    metrics=(),
    ks=(1, 5, 10),
)
"""Not in the list of protocols: it is asked for, or of systems that return texts."""

METRICS = ("containment", "exact_match", "token_f1", "rouge_l", "bleu", "bleu1")


def answer_columns(
    dataset: Dataset, texts: Sequence[Sequence[str]], counted: Flags, depth: float
) -> list[Column]:
    """Columns of every metric at every cut-off that the answers reach; `texts` are by query."""
    references = dataset.query_table["answers"].to_pylist()
    given = [answers if use else [] for answers, use in zip(references, counted, strict=True)]
    found = answers_in_top(texts, given, [k for k in ANSWERS.ks if k <= depth] or [1], METRICS)
    known = np.ones(dataset.n_queries, bool)
    return [Column(name, values, known, None, None) for name, values in found.items()]


def document_texts(dataset: Dataset, resolved: Resolved) -> list[list[str]]:
    """The texts of each query's best documents, as deep as the largest cut-off."""
    top = np.flatnonzero((resolved.rank <= max(ANSWERS.ks)) & (resolved.row >= 0))
    texts = dataset.documents.contents(resolved.row[top])
    by_query: list[list[str]] = [[] for _ in range(dataset.n_queries)]
    for query, text in zip(resolved.query[top].tolist(), texts, strict=True):
        by_query[query].append(text)
    return by_query
