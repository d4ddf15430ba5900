"""Scores batches of recalls by the harness's own metrics: the same functions that score a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from harness.live.logs.recall import Recall
from harness.live.monitor.labels import Labels
from harness.scoring.arrays import Values
from harness.scoring.metrics import Metric
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


def ranking(recall: Recall, own_id: str | None = None) -> dict[str, int]:
    """Document -> rank from 1, each document once, where it stands first.

    Where scores are given and rise, they order the documents, equals staying as they are: the order
    of the `memory` protocol. `own_id` is left out, for datasets that say so.
    """
    returned = recall.returned or ()
    scores = recall.scores
    if scores is not None and any(after > before for before, after in pairwise(scores)):
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        returned = tuple(returned[i] for i in order)
    unique = dict.fromkeys(returned)
    if own_id is not None:
        unique.pop(own_id, None)
    return {document: rank for rank, document in enumerate(unique, 1)}


class Scorer:
    """The metrics of recalls of labelled queries."""

    def __init__(self, labels: Labels, metrics: Sequence[Metric]) -> None:
        self._labels, self._metrics = labels, list(metrics)
        qrels = labels.qrels
        self._units = int(qrels.unit.max(initial=0)) + 1
        self._documents = int(qrels.document_code.max(initial=0)) + 1
        self._starts = np.array(labels.starts)

    def __call__(self, rows: Sequence[int], recalls: Sequence[Recall]) -> Values:
        """Values of every metric, shape (recalls, metrics); NaN where the query has no evidence.

        `rows` are the labelled queries of the recalls, none below 0.
        """
        labels, qrels = self._labels, self._labels.qrels
        n = len(recalls)
        ranks: list[int] = []
        returned = []
        for row, recall in zip(rows, recalls, strict=True):
            places = ranking(recall, labels.ids[row] if labels.exclude_self else None)
            returned.append(len(places))
            get = places.get
            ranks += [get(document, NOT_RETRIEVED) for document in labels.documents[row]]
        at = np.asarray(rows, np.int64)
        counts = (self._starts[1:] - self._starts[:-1])[at]
        query = np.repeat(np.arange(n, dtype=np.int32), counts)
        first = np.repeat(self._starts[:-1][at] - (np.cumsum(counts) - counts), counts)
        judgement = np.arange(len(query)) + first
        rank = np.array(ranks, np.int64)
        found = rank < NOT_RETRIEVED
        ranked = Ranked(
            np.array(returned, np.int64),
            np.ones(n, bool),
            query,
            qrels.grade[judgement],
            qrels.unit[judgement].astype(np.int64) + query.astype(np.int64) * self._units,
            qrels.document_code[judgement] + query.astype(np.int64) * self._documents,
            qrels.first_of_document[judgement],
            rank,
            np.where(found, rank - 1, NOT_RETRIEVED),
            found.astype(np.int64),
        )
        values = np.empty((n, len(self._metrics)))
        for i, metric in enumerate(self._metrics):
            values[:, i] = metric(ranked)
        return values
