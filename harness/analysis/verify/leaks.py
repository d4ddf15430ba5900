"""Computes the metrics of leaks, and PrecisionMemBench's, of each query by plain counting.

A leak is a returned document whose user is neither that of the query nor one of its groups. In a
random order the leaks in the top k are hypergeometric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from harness.analysis.verify.inputs import Flags, Floats, Inputs, QueryQrels, QueryRanking

_NAME = re.compile(r"(query_leak_rate|leak_rate|recall_in_scope)@(\d+)")
RETRIEVAL = ("retrieval_precision", "retrieval_recall")
"""Metrics of precisionmembench-official."""


class LeakMetric(NamedTuple):
    """A metric of scope/1 and its cutoff."""

    name: str
    k: int

    @classmethod
    def parse(cls, text: str) -> LeakMetric | None:
        """Parses a metric; None for another one."""
        found = _NAME.fullmatch(text)
        return LeakMetric(found[1], int(found[2])) if found else None


class ScopedQuery(NamedTuple):
    """What the user of a query may read: `foreign` documents among those that are returned or
    judged, and their number in the haystack."""

    foreign: Collection[str]
    n_foreign: int

    @classmethod
    def of(cls, inputs: Inputs, query: int) -> ScopedQuery:
        """Reads the users of the documents in the haystack of a query."""
        scopes, dataset = inputs.dataset.scopes, inputs.dataset
        assert scopes is not None, "the dataset has users"
        user, groups = scopes.reader(query)
        allowed = {None, user, *groups}
        known = inputs.documents(query)
        own = dataset.query_ids[query] if inputs.own[query] else None
        n = sum(
            count
            for name, count in inputs.users(int(dataset.query_haystack[query])).items()
            if name not in allowed
        )
        n -= own is not None and known[own].user not in allowed
        return cls({id_ for id_, one in known.items() if one.user not in allowed}, n)

    def ranking(self, ranking: QueryRanking) -> QueryRanking:
        """Returns a ranking without leaks."""
        kept = [i for i, document in enumerate(ranking.documents) if document not in self.foreign]
        scores = None if ranking.scores is None else ranking.scores[kept]
        return QueryRanking([ranking.documents[i] for i in kept], scores)

    def leak(self, metric: LeakMetric, documents: Sequence[str]) -> float:
        """Returns the share of leaks in the top k, or whether there is one."""
        top = documents[: metric.k]
        leaks = sum(document in self.foreign for document in top)
        if metric.name == "query_leak_rate":
            return float(leaks > 0)
        return leaks / len(top) if top else 0.0

    def random_leak(self, metric: LeakMetric, size: int) -> float:
        """Returns the mean over all orders of a haystack."""
        if metric.name == "leak_rate":
            return self.n_foreign / size if size else 0.0
        k = min(metric.k, size)
        return 1 - math.comb(size - self.n_foreign, k) / math.comb(size, k)


def retrieval_metrics(
    inputs: Inputs, qrels: Sequence[QueryQrels], scored: Flags
) -> dict[str, Floats]:
    """Returns precision and recall of whole rankings; NaN where they are not defined."""
    found = {name: np.full(len(scored), np.nan) for name in RETRIEVAL}
    for query in np.flatnonzero(scored).tolist():
        gold, returned = {*qrels[query].relevant()}, inputs.rankings[query].documents
        hits = len(gold.intersection(returned))
        if returned or gold:
            found["retrieval_precision"][query] = hits / len(returned) if returned else 0.0
        if gold:
            found["retrieval_recall"][query] = hits / len(gold)
    return found
