"""Relevance weighed with recency and importance, as agents' memories do.

After Park et al. (Generative Agents, UIST 2023): recency falls exponentially with age, and the
three are put on a scale from 0 to 1. There they are added (`combine=sum`); here they are multiplied
unless asked otherwise, so that what is not relevant at all stays last however new it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import near
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.hybrid import above_lowest
from harness.retrievers.nested import CandidateRanking, CandidateRetriever, RetrieverRef

Floats = npt.NDArray[np.float64]

_DAY = 86_400.0


@dataclass(eq=False, repr=False)
class RecencyWeighted:
    """Recency x importance x relevance over any retriever's candidates.

    `half_life`: days in which recency halves, counted back from the question's own date, else from
    the newest document. `importance`: a number, or `file.py:function` from a list of texts to
    numbers from 0 to 1. `combine`: product (weights are exponents) or sum. `depth`: candidates.
    """

    batch_size = 256

    retriever: RetrieverRef = "bm25"
    half_life: float = 30.0
    recency_weight: float = 1.0
    importance_weight: float = 1.0
    relevance_weight: float = 1.0
    importance: float | str = 1.0
    combine: str = "product"
    depth: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        self._stage = CandidateRetriever(self.retriever, self.seed)
        self.revision = self._stage.revision
        self.set_params(
            self.half_life,
            self.recency_weight,
            self.importance_weight,
            self.relevance_weight,
            self.combine,
            self.depth,
        )

    def set_params(
        self,
        half_life: float = 30.0,
        recency_weight: float = 1.0,
        importance_weight: float = 1.0,
        relevance_weight: float = 1.0,
        combine: str = "product",
        depth: int = 100,
    ) -> None:
        """Set what the index does not depend on. Raises ValueError for what cannot be."""
        if half_life <= 0:
            raise ValueError(f"half_life must be more than 0 days, not {half_life}")
        if combine not in ("product", "sum"):
            raise ValueError(f"unknown combine {combine!r}{near(combine, ['product', 'sum'])}")
        self._half_life = half_life * _DAY
        self._weights = (relevance_weight, recency_weight, importance_weight)
        self._product = combine == "product"
        self._depth = depth

    def index(self, corpus: Corpus) -> None:
        """Index the corpus, and learn when each document was said and how important it is."""
        self._stage.index(corpus)
        self._said = np.array([np.nan if t is None else t for t in corpus.timestamps], float)
        self._important = self._importance_of(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The candidates by all three together."""
        found = self._stage.search(queries, max(k, self._depth))
        return [self._weighed(query, one, k) for query, one in zip(queries, found, strict=True)]

    def report(self) -> dict[str, object]:
        """What the retriever inside says of itself."""
        return {"retriever": self._stage.report()}

    def release(self) -> bool:
        """Let others use what the retriever inside shares with them."""
        return self._stage.release()

    def close(self) -> None:
        """Close the retriever inside."""
        self._stage.close()

    def _weighed(self, query: Question, found: CandidateRanking, k: int) -> Result:
        at = found.positions
        if not len(at):
            return Result([], abstain=found.abstain)
        parts = (_relevance(found), self._recency(query.timestamp)[at], self._important[at])
        weighed = zip(parts, self._weights, strict=True)
        if self._product:
            scores = np.prod([part**weight for part, weight in weighed], axis=0)
        else:
            scores = np.sum([part * weight for part, weight in weighed], axis=0)
        order = np.argsort(-scores, kind="stable")[:k]
        return Result(at[order], scores[order])

    def _recency(self, now: float | None) -> Floats:
        """1 for what is said now or later; undated documents count as the oldest one."""
        dated = ~np.isnan(self._said)
        if not dated.any():
            return np.ones(len(self._said))
        said = np.where(dated, self._said, self._said[dated].min())
        age = np.maximum(0.0, (said.max() if now is None else now) - said)
        recency: Floats = 0.5 ** (age / self._half_life)
        return recency

    def _importance_of(self, corpus: Corpus) -> Floats:
        if not isinstance(self.importance, str):
            return np.full(len(corpus), float(self.importance))
        from harness.retrievers.registry import find

        values = np.asarray(find(self.importance)(corpus.contents), float)
        if values.shape != (len(corpus),) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                f"{self.importance}: must give one number from 0 to 1 for each of "
                f"{len(corpus)} texts"
            )
        return values


def _relevance(found: CandidateRanking) -> Floats:
    """Scores from 0, the last candidate, to 1, the first; by rank where there are none."""
    n = len(found.positions)
    scores = np.arange(n, 0, -1.0) if found.scores is None else found.scores
    return above_lowest(scores, float(np.ptp(scores)))
