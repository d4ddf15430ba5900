"""Measures leaks: returned documents that the user of a query may not read. Lower is better.

`leak_rate@k` is the share of the documents returned in the top k; 0 if none is returned, so that n
is the same for all systems. `query_leak_rate@k`: whether one of them is a leak. Failed and missing
queries have neither, since an error must not count as protection.

`recall_in_scope@k` is the recall of the ranking without leaks, as a filter behind the system would
leave it: leaks have metrics of their own, and should not lower recall too. Evidence that the user
may not read cannot be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.datasets.reader import Dataset
from harness.runfiles.rankings import Rankings, without
from harness.scoring.arrays import Flags, Values, count_by, ratio
from harness.scoring.metrics import Metric
from harness.scoring.metrics.definition import none_found
from harness.scoring.protocols import Protocol
from harness.scoring.ranks import Ties, from_dataset, rank_judged
from harness.scoring.resolve import in_haystack, resolve, sizes_by_query
from harness.scoring.score_columns import Column, document_columns


def columns(
    dataset: Dataset,
    protocol: Protocol,
    rankings: Rankings,
    cutoffs: Sequence[int],
    scored: Flags,
    replied: Flags,
) -> list[Column]:
    """Computes the metrics of `scored` queries, (n,), of a dataset with users.

    `rankings` are best first; `replied`: queries known to have been answered.
    """
    scopes = dataset.scopes
    if scopes is None:
        return []
    resolved = resolve(rankings, dataset)
    leak = scopes.foreign(resolved.query, resolved.row)
    haystacks = np.unique(dataset.query_haystack).tolist()
    rows = {haystack: dataset.haystack_rows(haystack) for haystack in haystacks}
    n_foreign = scopes.foreign_counts(dataset.query_haystack, rows)
    sizes = sizes_by_query(dataset)
    if dataset.manifest.exclude_self:
        queries = np.arange(dataset.n_queries)
        n_foreign = n_foreign - scopes.foreign(queries, dataset.rows_with_query_id)
    answered = scored & (np.isin(dataset.query_ids, rankings.query_ids) | replied)
    found = []
    for k in cutoffs:
        top = resolved.rank <= k
        leaks = count_by(resolved.query[top & leak], dataset.n_queries)
        returned = count_by(resolved.query[top], dataset.n_queries)
        share = ratio(n_foreign, sizes, 0.0)
        some = 1 - none_found(sizes, n_foreign, np.minimum(k, sizes))
        found.append(_column(f"leak_rate@{k}", ratio(leaks, returned, 0.0), share, answered))
        found.append(
            _column(f"query_leak_rate@{k}", (leaks > 0).astype(np.float64), some, answered)
        )
    place = dict(zip(rankings.query_ids, rankings.starts.tolist(), strict=False))
    starts = np.array([place.get(name, 0) for name in dataset.query_ids], np.int64)
    allowed = without(rankings, (starts[resolved.query] + resolved.rank - 1)[leak])
    ranked = rank_judged(allowed, from_dataset(dataset), Ties.ORDER)
    judged = dataset.qrels()
    present = in_haystack(dataset, judged.query, judged.document)
    present &= ~scopes.foreign(judged.query, judged.document)
    recalls = document_columns(
        protocol,
        [Metric("recall", k) for k in cutoffs],
        ranked,
        scored & ranked.has_relevant,
        present,
        sizes - n_foreign,
    )
    return found + [
        replace(one, metric=f"recall_in_scope@{k}") for k, one in zip(cutoffs, recalls, strict=True)
    ]


def _column(name: str, values: Values, random: Values, known: Flags) -> Column:
    """Returns a column whose best value is 0."""
    every = np.ones(len(known), bool)
    values, random = (np.where(known, one, np.nan) for one in (values, random))
    return Column(name, values, every, random, np.where(known, 0.0, np.nan))
