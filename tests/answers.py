"""What a retriever answers to the questions of `sample`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from harness import Settings, open_dataset, run
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import RetrieverSpec

Answers = dict[str, tuple[list[str], npt.NDArray[Any]]]


def answers(retriever: Retriever | RetrieverSpec, out: Path, limit: int | None = None) -> Answers:
    """Ids and scores for each query, best first; haystacks one after the other."""
    folder = run(open_dataset("sample"), retriever, Settings(k=20, limit=limit), out=out)
    found: dict[str, list[tuple[str, float]]] = {}
    for row in pq.read_table(folder / "rankings.parquet").to_pylist():
        found.setdefault(row["query"], []).append((row["document"], row["score"]))
    return {query: ([d for d, _ in a], np.array([s for _, s in a])) for query, a in found.items()}
