"""Rankings with the dataset's ids, from rows of its document table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.dataset.reader import Dataset
from harness.rankings.rankings import Rankings
from harness.scoring.matching.hits import UNRESOLVED


@dataclass(frozen=True)
class Ranking:
    """One query's ranking, best first; a row of -1 is a place in which nothing is known."""

    query: int
    rows: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64] | None


def as_rankings(dataset: Dataset, ranked: Sequence[Ranking]) -> Rankings:
    """The rankings as columns.

    Where some came with scores and others without, all are kept by order alone.
    """
    sizes = [len(one.rows) for one in ranked]
    rows = np.concatenate([np.zeros(0, np.int32), *(one.rows for one in ranked)])
    score = None
    if all(one.scores is not None for one in ranked if len(one.rows)):
        parts = (one.scores for one in ranked if one.scores is not None)
        score = np.concatenate([np.zeros(0), *parts])
    return Rankings(
        [dataset.query_ids[one.query] for one in ranked],
        np.repeat(np.arange(len(ranked), dtype=np.int32), sizes),
        _ids(dataset, rows, np.array(sizes, np.int64)),
        score,
    )


def _ids(
    dataset: Dataset, rows: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64]
) -> pa.ChunkedArray:
    document: Any = dataset.documents.column("id", np.maximum(rows, 0))
    if (rows < 0).any():
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.arange(len(rows)) - starts + 1
        names = document.to_pylist()
        for at in np.flatnonzero(rows < 0):
            names[at] = f"{UNRESOLVED}{place[at]}"
        document = pa.array(names, pa.string())
    return pa.chunked_array([document]) if isinstance(document, pa.Array) else document
