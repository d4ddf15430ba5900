"""Several retrievers fused into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import near
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.fusion import METHODS, fuse
from harness.retrievers.stage import Given, Stage


class Hybrid:
    """Fusion of any retrievers by reciprocal rank or by weighted scores.

    `retrievers`: names with commas between them, or a list of names and {name, params}. `method`:
    rrf, minmax or zscore; `weights` one a retriever (equal if absent); `k0` is rrf's constant;
    `depth` how many candidates each gives (k, where that is more).
    """

    batch_size = 256

    def __init__(
        self,
        retrievers: str | Sequence[Given] = "bm25,minilm",
        method: str = "rrf",
        weights: Sequence[float] | None = None,
        k0: float = 60.0,
        depth: int = 100,
        seed: int = 0,
    ) -> None:
        given = retrievers.split(",") if isinstance(retrievers, str) else retrievers
        if not given:
            raise ValueError("retrievers is empty; name two or more")
        self._stages = [Stage(one.strip() if isinstance(one, str) else one, seed) for one in given]
        self.revision = "+".join(filter(None, (stage.revision for stage in self._stages))) or None
        self.retune(method, weights, k0, depth)

    def retune(
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
        """Index the corpus in each."""
        for stage in self._stages:
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

    def report(self) -> dict[str, Any]:
        """What each says of itself."""
        return {"retrievers": [stage.report() for stage in self._stages]}
