"""Retrievers over other retrievers: rank or score fusion, and recency weighting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError, suggest
from harness.io.records import Record, convert
from harness.retrievers import calls
from harness.retrievers.baselines import is_oracle
from harness.retrievers.contract import Corpus, Found, Question, Result, Retriever
from harness.retrievers.corpus import unknown_handle
from harness.retrievers.outputs import (
    NotAnAnswerError,
    documents_of,
    in_order,
    in_range,
    ranked_result,
    scores_of,
)

RetrieverRef = str | Mapping[str, object]
"""A retriever's name, or its name and parameters: {"name": "bm25", "params": {"k1": 0.9}}."""


class NestedSpec(Record):
    """A nested retriever, as given by a parameter."""

    name: str
    params: dict[str, object] | None = None


@dataclass(frozen=True)
class CandidateRanking:
    """A ranking, best first: `positions` and `scores` (or None) of shape (n,)."""

    positions: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64] | None
    abstain: bool = False


class CandidateRetriever:
    """A nested retriever that supplies the candidates of another."""

    def __init__(self, given: RetrieverRef | Retriever, seed: int) -> None:
        """Raises ValueError for an invalid mapping, UsageError for an unsuitable retriever."""
        from harness.retrievers.registry import RetrieverSpec

        if isinstance(given, Retriever):
            self.name, self._retriever = type(given).__qualname__, given
        else:
            values = {"name": given} if isinstance(given, str) else dict(given)
            try:
                spec = convert(values, NestedSpec, "a retriever inside another")
            except UsageError as error:
                raise ValueError(
                    f"a retriever is a name or {{name, params}}, not {given!r} ({error})"
                ) from None
            self.name = spec.name
            self._retriever = RetrieverSpec(self.name, spec.params or {}).build(seed)
        for trait, reason in (
            (
                getattr(self._retriever, "returns_dataset_ids", False),
                "it answers with the dataset's ids",
            ),
            (is_oracle(self._retriever), "it is given the gold labels"),
        ):
            if trait:
                raise UsageError(f"retriever {self.name!r} cannot be used inside another: {reason}")

    @property
    def revision(self) -> str | None:
        """Identifier of the retriever's model weights, if it has one."""
        said = getattr(self._retriever, "revision", None)
        return said if isinstance(said, str) else None

    @property
    def address(self) -> str:
        """Address of the retriever's service; empty if it has none."""
        return str(getattr(self._retriever, "address", ""))

    def index(self, corpus: Corpus) -> None:
        """Indexes the corpus."""
        calls.index(self._retriever, corpus)
        self._corpus = corpus
        self._position_of_handle: dict[str, int] | None = None

    def search(self, queries: Sequence[Question], k: int) -> list[CandidateRanking]:
        """Returns a ranking of at most k documents per question, in batches of `batch_size`."""
        size = int(getattr(self._retriever, "batch_size", 1))
        rankings: list[CandidateRanking] = []
        for start in range(0, len(queries), size):
            part = queries[start : start + size]
            try:
                found = calls.search(self._retriever, part, k)
                rankings += [self._ranking(one, k) for one in found]
            except (NotAnAnswerError, ValueError) as error:
                raise type(error)(f"{self.name}: {error}") from error
        return rankings

    def release(self) -> bool:
        """Releases shared resources; see `Capabilities.release`."""
        return calls.release(self._retriever)

    def close(self) -> None:
        """Closes the retriever."""
        calls.close(self._retriever)

    def report(self) -> dict[str, object]:
        """Returns the retriever's name and its own report, if any."""
        report = getattr(self._retriever, "report", None)
        return {"name": self.name, **(calls.await_result(report()) if callable(report) else {})}

    def _ranking(self, found: Found, k: int) -> CandidateRanking:
        """Parses an answer as in a run: sorted by score, without repeated documents."""
        result = ranked_result(found, self._retriever)
        ids: Any = result.ids
        scores = result.scores
        if result.hits is not None:
            ids, scores = documents_of(result.hits)
        positions = in_range(ids, len(self._corpus), self._position)
        known = scores_of(scores, len(positions))
        positions, known, _ = in_order(positions, known, result.ranked_by)
        return CandidateRanking(
            positions[:k], None if known is None else known[:k], bool(result.abstain)
        )

    def _position(self, id_: Any) -> int:
        if not isinstance(id_, str):
            return index(id_)
        if self._position_of_handle is None:
            handles = self._corpus.handles
            self._position_of_handle = {handle: i for i, handle in enumerate(handles)}
        if id_ not in self._position_of_handle:
            raise unknown_handle(id_)
        return self._position_of_handle[id_]


Floats = npt.NDArray[np.float64]

METHODS = ("rrf", "minmax", "zscore")


class Hybrid:
    """Fusion of any retrievers by reciprocal rank or by weighted scores.

    `retrievers`: comma-separated names, or a list of names and {name, params}. `method`: rrf,
    minmax or zscore; `weights`: one per retriever (equal if absent); `k0`: rrf's constant; `depth`:
    number of candidates of each retriever (at least k).
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
        """Sets parameters that do not affect the indexes. Raises ValueError for invalid ones."""
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{suggest(method, list(METHODS))}")
        n = len(self._stages)
        self._weights = [1.0] * n if weights is None else [float(weight) for weight in weights]
        if len(self._weights) != n:
            raise ValueError(f"{n} retrievers, but {len(self._weights)} weights")
        self._method, self._k0, self._depth = method, k0, depth

    def index(self, corpus: Corpus) -> None:
        """Indexes the corpus in each retriever; in the order of addresses, to avoid deadlocks."""
        self.release()
        for i, stage in sorted(enumerate(self._stages), key=lambda one: one[1].address):
            stage.index(corpus.with_owner(str(i)))

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k best of all candidates after fusion."""
        found = [stage.search(queries, max(k, self._depth)) for stage in self._stages]
        results = []
        for rankings in zip(*found, strict=True):
            fused = fuse(rankings, self._method, self._weights, self._k0)
            scores = None if fused.scores is None else fused.scores[:k]
            results.append(Result(fused.positions[:k], scores, abstain=fused.abstain))
        return results

    def report(self) -> dict[str, object]:
        """Returns the reports of all retrievers."""
        return {"retrievers": [stage.report() for stage in self._stages]}

    def release(self) -> bool:
        """Releases shared resources; returns whether any retriever must index again."""
        gave = [stage.release() for stage in self._stages]  # a list: any() alone would stop early
        return any(gave)

    def close(self) -> None:
        """Closes all retrievers."""
        for stage in self._stages:
            stage.close()


def fuse(
    rankings: Sequence[CandidateRanking], method: str, weights: Sequence[float], k0: float = 60.0
) -> CandidateRanking:
    """Fuses rankings: sorts their documents by the sum of their weights in each ranking.

    `rrf` adds weight / (k0 + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009).
    `minmax` adds weight * (score - lowest) / (highest - lowest); `zscore` divides by the standard
    deviation instead. With both, a document missing in a ranking counts like its last one. Ties
    keep the order of the documents in the rankings, the first ranking first.
    Raises ValueError if the method needs scores and a ranking has none.
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
    """Returns (score - lowest) / `spread`; 1 if all scores are equal."""
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
        raise ValueError(f"{method} fuses scores, but one retriever has none; use method=rrf")
    spread = np.ptp(ranking.scores) if method == "minmax" else ranking.scores.std()
    return above_lowest(ranking.scores, float(spread))


_DAY = 86_400.0


@dataclass(eq=False, repr=False)
class RecencyWeighted:
    """Recency x importance x relevance over any retriever's candidates.

    `half_life`: days in which recency halves, counted back from the question's own date, else from
    the newest document. `importance`: a number, or `file.py:function` that maps a list of texts to
    numbers from 0 to 1. `combine`: product (weights are exponents) or sum. `depth`: number of
    candidates."""

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
        """Sets parameters that do not affect the index. Raises ValueError for invalid ones."""
        if half_life <= 0:
            raise ValueError(f"half_life must be more than 0 days, not {half_life}")
        if combine not in ("product", "sum"):
            raise ValueError(f"unknown combine {combine!r}{suggest(combine, ['product', 'sum'])}")
        self._half_life = half_life * _DAY
        self._weights = (relevance_weight, recency_weight, importance_weight)
        self._product = combine == "product"
        self._depth = depth

    def index(self, corpus: Corpus) -> None:
        """Indexes the corpus, and stores each document's timestamp and importance."""
        self._stage.index(corpus)
        self._said = np.array([np.nan if t is None else t for t in corpus.timestamps], float)
        self._important = self._importance_of(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k best candidates by recency, importance and relevance."""
        found = self._stage.search(queries, max(k, self._depth))
        return [self._weighed(query, one, k) for query, one in zip(queries, found, strict=True)]

    def report(self) -> dict[str, object]:
        """Returns the nested retriever's report."""
        return {"retriever": self._stage.report()}

    def release(self) -> bool:
        """Releases the nested retriever's shared resources."""
        return self._stage.release()

    def close(self) -> None:
        """Closes the nested retriever."""
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
        return Result(at[order], scores[order], abstain=found.abstain)

    def _recency(self, now: float | None) -> Floats:
        """Returns each document's recency: 1 if not before `now`; undated count as oldest."""
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
    """Scales scores, or ranks if there are none, from 0 (last candidate) to 1 (first)."""
    n = len(found.positions)
    scores = np.arange(n, 0, -1.0) if found.scores is None else found.scores
    return above_lowest(scores, float(np.ptp(scores)))
