"""Which queries are run, and the work items that they are divided into."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset, last_of_base
from harness.errors import UsageError
from harness.runs.results import WorkItem

QUERIES_PER_ITEM = 512
"""An interrupted run repeats one item at worst."""


def choose_queries(dataset: Dataset, limit: int | None, seed: int) -> npt.NDArray[np.int64]:
    """Return rows of the queries to run, in the dataset's order.

    With a limit: a seeded sample, stratified by ability (the files are grouped by type, so the
    first N would be one ability). Each ability gets its share, rounded by largest remainder, and at
    least one query where the limit allows. Raises UsageError for a dataset without queries.
    """
    n = dataset.n_queries
    if n == 0:
        raise UsageError(f"{dataset.name} has no queries")
    if limit is None or limit >= n:
        return np.arange(n)
    rng = np.random.default_rng(seed)
    names, ability = np.unique(dataset.abilities, return_inverse=True)
    sizes = np.bincount(ability)
    shares = sizes * limit / n
    take = np.floor(shares).astype(int)
    if limit >= len(names):
        take = np.maximum(take, 1)
    while take.sum() < limit:
        take[np.argmax(np.where(take < sizes, shares - take, -np.inf))] += 1
    while take.sum() > limit:
        take[np.argmax(np.where(take > 1, take - shares, -np.inf))] -= 1
    chosen = [rng.permutation(np.flatnonzero(ability == i))[:count] for i, count in enumerate(take)]
    return np.sort(np.concatenate(chosen))


def work_items(dataset: Dataset, queries: npt.NDArray[np.int64], seed: int) -> list[WorkItem]:
    """Divides the queries into work items: one a haystack, several where it has many queries.

    Items, and the queries in each, come in a seeded random order: the files are grouped by type, so
    that in their order a system could tell from the number of its calls what it is asked. Those of
    a haystack as of several times come in the order of time.
    """
    rng = np.random.default_rng(seed)
    queries = rng.permutation(queries)
    haystack = dataset.query_haystack[queries]
    order = np.argsort(haystack, kind="stable")
    cuts = np.flatnonzero(np.diff(haystack[order])) + 1
    groups = np.split(queries[order], cuts)
    shuffled = [groups[i] for i in rng.permutation(len(groups))]
    chain_of: dict[int, int] = {}
    if dataset.manifest.as_of:
        asked = [int(dataset.query_haystack[group[0]]) for group in shuffled]
        chain_of = {one: last_of_base(dataset.haystack_ids, one) for one in asked}
        place = {chain: i for i, chain in enumerate(dict.fromkeys(chain_of.values()))}
        in_time = sorted(range(len(asked)), key=lambda i: (place[chain_of[asked[i]]], asked[i]))
        shuffled = [shuffled[i] for i in in_time]
    planned: list[WorkItem] = []
    for group in shuffled:
        for start in range(0, len(group), QUERIES_PER_ITEM):
            part = group[start : start + QUERIES_PER_ITEM].tolist()
            its = int(dataset.query_haystack[part[0]])
            planned.append(WorkItem(len(planned), its, part, chain_of.get(its)))
    return planned
