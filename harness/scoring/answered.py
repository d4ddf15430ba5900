"""What is known of a run beside its rankings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.scoring.arrays import Values

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Answered:
    """What became of each query; every array has shape (queries,).

    `asked`: the run was to answer the query. `replied`: it is known to have answered, be it with
    nothing; a run file cannot tell an empty answer from a query that was left out. `failed`: it
    raised an error there, so it is left out of every mean and counted. `confidence`: the system's
    own, NaN where it gave none. `abstained`: it said that there is no answer.
    """

    asked: Flags
    replied: Flags
    failed: Flags
    confidence: Values
    abstained: Flags

    @classmethod
    def everything(cls, n: int) -> Answered:
        """Every query asked, nothing failed, nothing else known: a run from elsewhere."""
        no = np.zeros(n, bool)
        return cls(np.ones(n, bool), no, no.copy(), np.full(n, np.nan), no.copy())
