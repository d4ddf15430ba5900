"""Several retrievers fused into one: by reciprocal ranks, or by scores brought to one scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.errors import near
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.nested import CandidateRanking, CandidateRetriever, RetrieverRef

Floats = npt.NDArray[np.float64]

METHODS = ("rrf", "minmax", "zscore")


class Hybrid:
    """Fusion of any retrievers by reciprocal rank or by weighted scores.

    `retrievers`: names with commas between them, or a list of names and {name, params}. `method`:
    rrf, minmax or zscore; `weights` one a retriever (equal if absent); `k0` is rrf's constant;
    `depth` how many candidates each gives (k, where that is more).
    """

    batch_size = 256

    def __init__(
        self,
        retrievers: str | Sequence[RetrieverRef] = "bm25,minilm",
        method: str = "rrf",
        weights: Sequence[float] | None = None,
        k0: float = 60.0,
        depth: int = 100,
        seed: int = 0,
    ) -> None:
        given = retrievers.split(",") if isinstance(retrievers, str) else retrievers
        if not given:
            raise ValueError("retrievers is empty; name two or more")
        self._stages = [
            CandidateRetriever(one.strip() if isinstance(one, str) else one, seed) for one in given
        ]
        self.revision = "+".join(filter(None, (stage.revision for stage in self._stages))) or None
        self.set_params(method, weights, k0, depth)

    def set_params(
        self,
        method: str = "rrf",
        weights: Sequence[float] | None = None,
        k0: float = 60.0,
        depth: int = 100,
    ) -> None:
        """Set what the indexes do not depend on. Raises ValueError for what cannot be."""
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{near(method, list(METHODS))}")
        n = len(self._stages)
        self._weights = [1.0] * n if weights is None else [float(weight) for weight in weights]
        if len(self._weights) != n:
            raise ValueError(f"{n} retrievers, but {len(self._weights)} weights")
        self._method, self._k0, self._depth = method, k0, depth

    def index(self, corpus: Corpus) -> None:
        """Index the corpus in each; services that are one's at a time in one order for all."""
        self.release()
        for stage in sorted(self._stages, key=lambda stage: stage.address):
            stage.index(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k best of all candidates together."""
        found = [stage.search(queries, max(k, self._depth)) for stage in self._stages]
        results = []
        for rankings in zip(*found, strict=True):
            fused = fuse(rankings, self._method, self._weights, self._k0)
            scores = None if fused.scores is None else fused.scores[:k]
            results.append(Result(fused.positions[:k], scores, abstain=fused.abstain))
        return results

    def report(self) -> dict[str, object]:
        """What each says of itself."""
        return {"retrievers": [stage.report() for stage in self._stages]}

    def release(self) -> bool:
        """Let others use what each shares with them; whether any is to index again."""
        gave = [stage.release() for stage in self._stages]  # every one of them
        return any(gave)

    def close(self) -> None:
        """Close each."""
        for stage in self._stages:
            stage.close()


def fuse(
    rankings: Sequence[CandidateRanking], method: str, weights: Sequence[float], k0: float = 60.0
) -> CandidateRanking:
    """All documents of the rankings, by the sum of what each ranking gives them.

    `rrf` gives weight / (k0 + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009).
    `minmax` gives weight * (score - lowest) / (highest - lowest), `zscore` the same over the
    standard deviation. So who is not in a ranking counts as its last. Equal sums keep the order in
    which the documents come in the rankings, the first ranking first.
    Raises ValueError where scores are wanted and a ranking has none.
    """
    gained = [
        weight * _gain(ranking, method, k0)
        for ranking, weight in zip(rankings, weights, strict=True)
    ]
    positions = np.concatenate([ranking.positions for ranking in rankings])
    distinct, first, which = np.unique(positions, return_index=True, return_inverse=True)
    sums = np.bincount(which, np.concatenate(gained), minlength=len(distinct)).astype(float)
    order = np.lexsort((first, -sums))
    return CandidateRanking(
        distinct[order], sums[order], all(ranking.abstain for ranking in rankings)
    )


def above_lowest(scores: Floats, spread: float) -> Floats:
    """How far each score is above the lowest, in units of `spread`; 1 where all are equal."""
    low = scores.min()
    if scores.max() == low:
        return np.ones(len(scores))
    scaled: Floats = (scores - low) / spread
    return scaled


def _gain(ranking: CandidateRanking, method: str, k0: float) -> Floats:
    n = len(ranking.positions)
    if method == "rrf":
        return 1 / (k0 + np.arange(1, n + 1))
    if n == 0:
        return np.zeros(0)
    if ranking.scores is None:
        raise ValueError(f"{method} fuses scores, and one retriever gives none; take method=rrf")
    spread = np.ptp(ranking.scores) if method == "minmax" else ranking.scores.std()
    return above_lowest(ranking.scores, float(spread))
