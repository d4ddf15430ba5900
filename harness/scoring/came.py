"""How many documents came, where a run says how many were asked for.

`came` of scores.json counts the places of rankings, a query each: of queries that have a ranking,
and where the system did not say that there is no answer. A query with no ranking (it failed, or got
nothing) is counted beside that, under `queries`. A ranking is whole with as many documents as were
asked for, or as its haystack holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from harness.dataset.reader import Dataset
from harness.scoring.arrays import Flags, Ints
from harness.scoring.ranks import Ranked
from harness.scoring.rollup import haystack_sizes
from harness.scoring.slices import Answered

SHORT = 0.1
"""Share of the rankings that may be shorter than a cut-off k before it is called beyond them."""


def came_in(
    dataset: Dataset, answered: Answered, ranked: Ranked, depth: int, ks: Collection[int]
) -> dict[str, Any] | None:
    """What came of the `depth` documents that were asked for, as in scores.json; None: nothing.

    `ks` are the cut-offs of documents that are scored.
    """
    of = (ranked.returned > 0) & answered.asked & ~answered.failed & ~answered.abstained
    own = np.zeros(len(of), bool)
    if dataset.manifest.exclude_self:
        own = dataset.rows_with_query_id >= 0
    return count_came(ranked.returned[of], haystack_sizes(dataset)[of], own[of], depth, ks)


def count_came(
    returned: Ints, sizes: Ints, own: Flags, depth: int, ks: Collection[int]
) -> dict[str, Any] | None:
    """What came, as in scores.json; None for no rankings.

    Shapes (n,), a ranking each: `returned`, places in it; `sizes`, documents it could hold of its
    haystack; `own`, whether the query is a document there, which is left out and may have taken
    one place of the `depth` that were asked for.
    """
    if not len(returned):
        return None
    room = np.minimum(depth - own.astype(np.int64), sizes)
    share = {k: float((returned < np.minimum(k, room)).mean()) for k in sorted(ks)}
    return {
        "rankings": len(returned),
        "mean": float(returned.mean()),
        "least": int(returned.min()),
        "shorter": int((returned < room).sum()),
        "k_beyond": [k for k, of in share.items() if of > SHORT],
    }


def deep(came: Mapping[str, Any] | None, depth: int, *, executed: bool) -> str:
    """How deep rankings are: `100 documents deep` where all came that could.

    `came` is None for scores of an older harness, and where nothing came; `executed`: the harness
    ran the system; of rankings from elsewhere nobody knows how many were asked for, and `depth` is
    the most that one could hold.
    """
    if not came:
        return f"at most {depth} documents deep"
    if not came["shorter"]:
        return f"{depth} documents deep"
    return f"{figures(came, 'documents deep')}, of {depth} {'asked' if executed else 'at most'}"


def beyond(came: Mapping[str, Any] | None, metrics: Iterable[str] | None = None) -> str:
    """The cut-offs that are beyond what came, as a sentence; empty for none.

    `metrics`: only their cut-offs (None: all that were scored).
    """
    ks = came["k_beyond"] if came else []
    if metrics is not None:
        of = {name.rpartition("@")[2] for name in metrics}
        ks = [k for k in ks if str(k) in of]
    if not came or not ks:
        return ""
    return (
        f"k = {', '.join(map(str, ks))}: beyond what came ({figures(came, 'documents')}; over a "
        "tenth of the rankings end before k)"
    )


def figures(came: Mapping[str, Any], what: str) -> str:
    """`6.5 documents on average, 5 at least`, of what came."""
    return f"{came['mean']:.1f} {what} on average, {came['least']} at least"
