"""A development part and a held-out part of one dataset's queries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.scoring.uncertainty import independent

Flags = npt.NDArray[np.bool_]


def development(dataset: Dataset, share: float, seed: int) -> Flags:
    """Queries of the development part: about `share` of them, by a seeded draw.

    Questions that share one of several haystacks go together, since they are not independent.
    Raises UsageError for a share that leaves one of the two parts empty.
    """
    if not 0 < share < 1:
        raise UsageError(f"--dev-share must be between 0 and 1, not {share}")
    clusters = independent(dataset)
    units = np.arange(dataset.n_queries) if clusters is None else clusters
    distinct = np.unique(units)
    order = np.random.default_rng(seed).permutation(distinct)
    taken = order[: round(share * len(distinct))]
    chosen = np.isin(units, taken)
    if chosen.all() or not chosen.any():
        raise UsageError(
            f"--dev-share {share} of {len(distinct)} "
            f"{'queries' if clusters is None else 'haystacks'} leaves one part empty"
        )
    return chosen
