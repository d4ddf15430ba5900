"""Knowledge update: is the newest statement of a fact found, and above the older ones?"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.dataset.reader import Dataset, Judgements
from harness.schema import Ability
from harness.scoring.arrays import mean
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


def freshness(
    dataset: Dataset, judged: Judgements, ranked: Ranked, scored: np.ndarray, ks: tuple[int, ...]
) -> dict[str, Any] | None:
    """Over knowledge-update queries whose gold documents have different dates.

    newest_found@k: a gold document of the latest date is in the top k. only_stale_found@k: an older
    gold document is, and none of the latest date. newest_above_all_older: the first gold document
    of the latest date was returned and stands above every older one. None without such queries.
    """
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
    result: dict[str, Any] = {
        "n": len(queries),
        "newest_above_all_older": mean(
            ((first_new != NOT_RETRIEVED) & (first_new < first_old)).astype(float)
        ),
    }
    for k in ks:
        result[f"newest_found@{k}"] = mean((first_new <= k).astype(float))
        result[f"only_stale_found@{k}"] = mean(((first_new > k) & (first_old <= k)).astype(float))
    return result


def _first(ranked: Ranked, rows: np.ndarray) -> np.ndarray:
    first = np.full(ranked.n, NOT_RETRIEVED)
    np.minimum.at(first, ranked.query[rows], ranked.rank[rows])
    return first


def _timestamps(dataset: Dataset, judged: Judgements, wanted: np.ndarray) -> np.ndarray:
    """When each judged document was said in its query's haystack; NaN where nobody knows."""
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
