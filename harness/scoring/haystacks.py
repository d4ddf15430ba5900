"""What the haystack of a query lets a ranking hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset
from harness.scoring.arrays import Flags, Ints

UNKNOWN_SIZE = 1 << 31
"""Larger than any haystack: of datasets of ids alone, whose haystacks nobody knows."""


def haystack_sizes(dataset: Dataset) -> Ints:
    """Documents in the haystack of each query; shape (n,)."""
    if dataset.manifest.ids_only:
        return np.full(dataset.n_queries, UNKNOWN_SIZE)
    sizes = np.array([dataset.haystack_size(h) for h in range(len(dataset.haystack_ids))], np.int64)
    sizes = sizes[dataset.query_haystack]
    if dataset.manifest.exclude_self:
        sizes = sizes - (dataset.rows_with_query_id >= 0)
    return sizes


def held(dataset: Dataset, query: npt.NDArray[np.int32], document: npt.NDArray[np.int32]) -> Flags:
    """Whether a ranking can hold each document, (m,): the haystack of its query does, and it is not
    the query's own where that is left out."""
    there = document >= 0
    haystack = dataset.query_haystack[query]
    order = np.argsort(haystack, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(haystack[order])) + 1):
        one = int(haystack[rows[0]]) if len(rows) else 0
        if len(rows) and dataset.haystack_size(one) < len(dataset.documents):
            there[rows] &= np.isin(document[rows], dataset.haystack_rows(one))
    if dataset.manifest.exclude_self:
        there &= document != dataset.rows_with_query_id[query]
    return there
