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
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{near(method, list(METHODS))}")
        given = retrievers.split(",") if isinstance(retrievers, str) else retrievers
        weights = [1.0] * len(given) if weights is None else [float(weight) for weight in weights]
        if len(weights) != len(given):
            raise ValueError(f"{len(given)} retrievers, but {len(weights)} weights")
        if not given:
            raise ValueError("retrievers is empty; name two or more")
        self._stages = [Stage(one.strip() if isinstance(one, str) else one, seed) for one in given]
        self.revision = "+".join(filter(None, (stage.revision for stage in self._stages))) or None
        self._method, self._weights, self._k0, self._depth = method, weights, k0, depth

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
