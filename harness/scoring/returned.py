"""Statistics of the returned documents against the requested depth.

They are over queries that have a ranking, and where the system did not say that there is no answer.
A query without a ranking (it failed, or got nothing) is counted beside them, under `queries`. A
ranking is complete with as many documents as were requested, or as its haystack holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from harness.datasets.reader import Dataset
from harness.records.scores import ReturnedStats
from harness.scoring.arrays import Flags, Ints
from harness.scoring.haystacks import haystack_sizes
from harness.scoring.ranks import Ranked
from harness.scoring.slices import QueryStatus

SHORT = 0.1
"""The share of rankings that may end before a cut-off k until k counts as unreached."""


def returned_stats(
    dataset: Dataset, answered: QueryStatus, ranked: Ranked, depth: int, cutoffs: Collection[int]
) -> ReturnedStats | None:
    """Returns the statistics for the `depth` that was requested; None where nothing was returned.

    `cutoffs` are those of documents that are scored.
    """
    counted = (ranked.returned > 0) & answered.asked & ~answered.failed & ~answered.abstained
    own = np.zeros(len(counted), bool)
    if dataset.manifest.exclude_self:
        own = dataset.rows_with_query_id >= 0
    return count_returned(
        ranked.returned[counted], haystack_sizes(dataset)[counted], own[counted], depth, cutoffs
    )


def count_returned(
    returned: Ints, sizes: Ints, own: Flags, depth: int, cutoffs: Collection[int]
) -> ReturnedStats | None:
    """Returns the statistics of n rankings; None for no rankings.

    Shapes (n,): `returned`, documents in a ranking; `sizes`, documents it could hold of its
    haystack; `own`, whether the query is a document there, which is left out and may have taken
    one place of the `depth` that was requested.
    """
    if not len(returned):
        return None
    room = np.minimum(depth - own.astype(np.int64), sizes)
    share = {
        cutoff: float((returned < np.minimum(cutoff, room)).mean()) for cutoff in sorted(cutoffs)
    }
    return ReturnedStats(
        rankings=len(returned),
        mean=float(returned.mean()),
        min=int(returned.min()),
        shorter=int((returned < room).sum()),
        unreached_cutoffs=[cutoff for cutoff, ended in share.items() if ended > SHORT],
    )


def depth_message(returned: ReturnedStats | None, depth: int, *, requested: bool) -> str:
    """Says how deep rankings are: `100 documents deep` where all were returned that could be.

    `requested`: `depth` is what the system was asked for. Of rankings that were imported nobody
    knows that, and `depth` is the most that one could hold.
    """
    if returned is None:
        return f"at most {depth} documents deep"
    if not returned.shorter:
        return f"{depth} documents deep"
    asked = "asked" if requested else "at most"
    return f"{figures(returned, 'documents deep')}, of {depth} {asked}"


def unreached_message(returned: ReturnedStats | None, metrics: Iterable[str] | None = None) -> str:
    """Names the cut-offs that exceed what was returned, as a sentence; empty for none.

    `metrics`: only their cut-offs (None: all that were scored).
    """
    cutoffs = returned.unreached_cutoffs if returned else []
    if metrics is not None:
        cuts = {name.rpartition("@")[2] for name in metrics}
        cutoffs = [cutoff for cutoff in cutoffs if str(cutoff) in cuts]
    if returned is None or not cutoffs:
        return ""
    return (
        f"k = {', '.join(map(str, cutoffs))}: beyond what came ({figures(returned, 'documents')}; "
        "over a tenth of the rankings end before k)"
    )


def figures(returned: ReturnedStats, what: str) -> str:
    """`6.5 documents on average, 5 at least`."""
    return f"{returned.mean:.1f} {what} on average, {returned.min} at least"
