"""Knowledge update: measures whether the newest statement is found and ranked above older ones."""

from __future__ import annotations

import numpy as np

from harness.datasets.reader import Dataset, DatasetQrels
from harness.records.scores import KnowledgeUpdateResult
from harness.schema import Ability
from harness.scoring.arrays import count_by, mean, ratio
from harness.scoring.metrics.definition import none_found
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.resolve import in_haystack, sizes_by_query


def knowledge_update(
    dataset: Dataset,
    ranked: Ranked,
    scored: np.ndarray,
    cutoffs: tuple[int, ...],
    depth: int,
    signature: str,
) -> KnowledgeUpdateResult | None:
    """Computes metrics of knowledge-update queries with gold documents of different dates.

    update_recall@k: a gold document of the latest date is in the top k. stale_only_rate@k: an older
    gold document is, and none of the latest date. update_ranked_first: the first gold document
    of the latest date was returned and ranked above every older one. None without such queries.
    `random_baseline` has the expected values of random orders at depth `depth`, with the same keys;
    `signature` is the signature template.
    """
    judged = dataset.qrels()
    update = dataset.abilities == str(Ability.KNOWLEDGE_UPDATE)
    gold = (ranked.grade >= 1) & (judged.document >= 0) & (update & scored)[ranked.query]
    stamps = _timestamps(dataset, judged, gold)
    dated = gold & ~np.isnan(stamps)
    latest = np.full(ranked.n, -np.inf)
    np.maximum.at(latest, ranked.query[dated], stamps[dated])
    newest = dated & (stamps == latest[ranked.query])
    older = dated & ~newest
    queries = np.unique(ranked.query[older])
    if len(queries) == 0:
        return None
    first_new, first_old = (_first(ranked, rows)[queries] for rows in (newest, older))
    # Numbers of distinct newest and older documents that a ranking can contain.
    once = ranked.first_of_document & in_haystack(dataset, judged.query, judged.document)
    new, old = (count_by(ranked.query[rows & once], ranked.n)[queries] for rows in (newest, older))
    size, both = sizes_by_query(dataset)[queries], new + old
    seen = 1 - none_found(size, both, np.minimum(depth, size))
    values = {
        "update_ranked_first": (
            (first_new != NOT_RETRIEVED) & (first_new < first_old),
            ratio(new, both, 0.0) * seen,
        )
    }
    for cutoff in cutoffs:
        top = np.minimum(cutoff, size)
        missed, nothing = none_found(size, new, top), none_found(size, both, top)
        values[f"update_recall@{cutoff}"] = (first_new <= cutoff, 1 - missed)
        values[f"stale_only_rate@{cutoff}"] = (
            (first_new > cutoff) & (first_old <= cutoff),
            missed - nothing,
        )
    return KnowledgeUpdateResult(
        n=len(queries),
        values={name: mean(found.astype(float)) for name, (found, _) in values.items()},
        random_baseline={name: mean(level) for name, (_, level) in values.items()},
        signature=signature,
    )


def _first(ranked: Ranked, rows: np.ndarray) -> np.ndarray:
    first = np.full(ranked.n, NOT_RETRIEVED)
    np.minimum.at(first, ranked.query[rows], ranked.rank[rows])
    return first


def _timestamps(dataset: Dataset, judged: DatasetQrels, wanted: np.ndarray) -> np.ndarray:
    """Returns the dates of judged documents in the query's haystack; NaN if unknown."""
    stamps = np.full(len(judged.query), np.nan)
    haystack = dataset.query_haystack[judged.query]
    for one in np.unique(haystack[wanted]):
        rows = dataset.haystack_rows(int(one))
        dates = dataset.haystack_timestamps(int(one)).to_numpy(zero_copy_only=False).astype(float)
        order = np.argsort(rows, kind="stable")
        mine = np.flatnonzero(wanted & (haystack == one))
        at = order[
            np.searchsorted(rows, judged.document[mine], sorter=order).clip(max=len(rows) - 1)
        ]
        stamps[mine] = np.where(rows[at] == judged.document[mine], dates[at], np.nan)
    return stamps
