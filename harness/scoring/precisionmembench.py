"""Computes PrecisionMemBench's retrieval precision and recall, as its code does.

Precision is the share of evidence among the returned beliefs; 0 if nothing is returned for a case
with evidence. A case without evidence has precision 0 if anything is returned, and none (it is not
part of the mean) if nothing is. So n differs between systems, and returning nothing for
such cases removes them from the mean. Recall is over cases with evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.datasets.reader import Dataset
from harness.runfiles.rankings import Rankings
from harness.scoring.arrays import Flags, Values, count_by, ratio
from harness.scoring.protocols import Protocol
from harness.scoring.ranks import NOT_RETRIEVED, Ties, from_dataset, rank_judged
from harness.scoring.score_columns import Column


def columns(
    dataset: Dataset,
    protocol: Protocol,
    rankings: Rankings,
    cutoffs: Sequence[int],
    scored: Flags,
    replied: Flags,
) -> list[Column]:
    """Computes both metrics over whole rankings."""
    ranked = rank_judged(rankings, from_dataset(dataset, protocol.key), Ties.ORDER)
    evidence = ranked.grade >= 1
    hits = count_by(ranked.query[evidence & (ranked.rank != NOT_RETRIEVED)], ranked.n)
    wanted = count_by(ranked.query[evidence], ranked.n)
    precision = ratio(hits, ranked.returned)
    precision[(ranked.returned == 0) & (wanted > 0)] = 0
    return [
        _column("retrieval_precision", precision, scored),
        _column("retrieval_recall", ratio(hits, wanted), scored),
    ]


def _column(name: str, values: Values, scored: Flags) -> Column:
    return Column(name, np.where(scored, values, np.nan), np.ones(len(scored), bool), None, None)
