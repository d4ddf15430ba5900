"""Approximate search by faiss, with its recall measured against exact search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

import numpy as np

from harness.errors import UsageError
from harness.extensions.dense.exact_search import Vectors, nearest
from harness.io.packages import require_packages
from harness.retrievers.contract import Result

Pieces = Callable[[], Iterable[tuple[int, Vectors]]]
"""Yields all vectors of a corpus in order, in pieces, with the position of the first."""

QUESTIONS = 100
"""Number of queries that are also searched exactly."""

_TRAINED_ON = 1 << 18
"""Maximum number of vectors for training the clusters of an index."""


class Approximate:
    """A faiss index over one corpus at a time, and its measured recall.

    `kind` is a string for faiss' index_factory, such as `HNSW32` or `IVF4096,Flat`; `probe` is one
    for its ParameterSpace, such as `efSearch=128` or `nprobe=32`. One thread adds vectors, because
    the HNSW graph depends on their order.
    """

    def __init__(self, kind: str, probe: str) -> None:
        """Raises UsageError if faiss is not installed."""
        require_packages(f"search={kind}", "faiss")
        self._kind, self._probe = kind, probe
        self._seconds = self._kept = 0.0
        self._asked = self._wanted = 0
        self._unchecked: list[tuple[Vectors, list[Result], int]] = []

    def index(self, pieces: Pieces, n: int, dimension: int) -> None:
        """Indexes n vectors, replacing the previous ones. Raises UsageError if faiss fails."""
        import faiss

        self.check()
        self._pieces = pieces
        self._n = n
        if not n:
            return
        began = perf_counter()
        threads = faiss.omp_get_max_threads()
        try:
            made = faiss.index_factory(dimension, self._kind, faiss.METRIC_INNER_PRODUCT)
            if not made.is_trained:
                made.train(_sample(pieces, n))
            faiss.omp_set_num_threads(1)
            for _, vectors in pieces():
                made.add(vectors)
            if self._probe:
                faiss.ParameterSpace().set_index_parameters(made, self._probe)
        except RuntimeError as error:
            said = str(error).strip().splitlines()[-1].rpartition(": ")[2]
            probe = f", probe={self._probe}" if self._probe else ""
            raise UsageError(
                f"search={self._kind}{probe} does not work for {n:,} documents (faiss: {said}); "
                "use another one, or search=exact"
            ) from None
        finally:
            faiss.omp_set_num_threads(threads)
        self._made = made
        self._seconds += perf_counter() - began

    def search(self, queries: Vectors, k: int) -> list[Result]:
        """Returns at most k documents per query, best first; ties are in corpus order."""
        k = min(k, self._n)
        if not len(queries) or k < 1:
            return [Result([], []) for _ in queries]
        scores, positions = self._made.search(queries, k)
        found = []
        for own, values in zip(positions, scores, strict=True):
            there = np.flatnonzero(own >= 0)  # -1 if it found fewer
            order = there[np.lexsort((own[there], -values[there]))]
            found.append(Result(own[order], values[order]))
        if (left := QUESTIONS - self._asked) > 0:
            self._asked += len(queries[:left])
            self._unchecked.append((queries[:left], found[:left], k))
        return found

    def check(self) -> None:
        """Searches the first queries exactly, once, outside of measured time."""
        for queries, found, k in self._unchecked:
            for exact, result in zip(nearest(queries, self._pieces(), k), found, strict=True):
                self._wanted += len(exact.ids)
                self._kept += np.isin(exact.ids, result.ids).sum()
        self._unchecked = []

    def report(self) -> dict[str, object]:
        """Returns indexing seconds, and the recall of exact results on the first queries.

        Recall is over all documents of the exact results, at the requested k.
        """
        import faiss

        self.check()
        report: dict[str, object] = {
            "search": f"{self._kind} {self._probe}".strip(),
            "engine": f"faiss {faiss.__version__}",
            "build_seconds": self._seconds,
        }
        if self._wanted:
            report["recall_of_exact"] = float(self._kept / self._wanted)
            report["checked_questions"] = self._asked
        return report


def _sample(pieces: Pieces, n: int) -> Vectors:
    """Returns evenly spaced vectors."""
    step = -(-n // _TRAINED_ON)
    return np.concatenate([vectors[-start % step :: step] for start, vectors in pieces()])
