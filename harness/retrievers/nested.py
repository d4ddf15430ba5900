"""A retriever used inside another: built from a name, its results as positions in the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.io.records import Record, convert
from harness.retrievers import calls
from harness.retrievers.baselines import is_oracle
from harness.retrievers.contract import Corpus, Found, Question, Retriever
from harness.retrievers.outputs import (
    NotAnAnswerError,
    as_result,
    documents_of,
    in_order,
    scores_of,
    within,
)

RetrieverRef = str | Mapping[str, object]
"""What names a retriever: `"bm25"`, or `{"name": "bm25", "params": {"k1": 0.9}}`."""


class NestedSpec(Record):
    """A retriever inside another, as a parameter names it."""

    name: str
    params: dict[str, object] | None = None


@dataclass(frozen=True)
class CandidateRanking:
    """One answer, best first: `positions` and `scores` (None: it gave none) of shape (n,)."""

    positions: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64] | None
    abstain: bool = False


class CandidateRetriever:
    """A retriever that gives another one its candidates."""

    def __init__(self, given: RetrieverRef | Retriever, seed: int) -> None:
        """Raises ValueError for a mapping of another form, UsageError for one that cannot serve."""
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
            (is_oracle(self._retriever), "it is shown the answer key"),
        ):
            if trait:
                raise UsageError(f"retriever {self.name!r} cannot stand inside another: {reason}")

    @property
    def revision(self) -> str | None:
        """What fixes its model's weights, where it says so."""
        said = getattr(self._retriever, "revision", None)
        return said if isinstance(said, str) else None

    @property
    def address(self) -> str:
        """Where its service is; empty where it has none."""
        return str(getattr(self._retriever, "address", ""))

    def index(self, corpus: Corpus) -> None:
        """Index the corpus."""
        calls.index(self._retriever, corpus)
        self._corpus = corpus
        self._position_of_handle: dict[str, int] | None = None

    def search(self, queries: Sequence[Question], k: int) -> list[CandidateRanking]:
        """One ranking a question, of at most k documents, in as many at once as it likes."""
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
        """See Retriever."""
        return calls.release(self._retriever)

    def close(self) -> None:
        """No more will be asked."""
        calls.close(self._retriever)

    def report(self) -> dict[str, object]:
        """Its name, and what it says of itself if it says anything."""
        report = getattr(self._retriever, "report", None)
        return {"name": self.name, **(calls.awaited(report()) if callable(report) else {})}

    def _ranking(self, found: Found, k: int) -> CandidateRanking:
        """As the harness itself reads an answer: sorted by score, each document once."""
        result = as_result(found)
        ids: Any = result.ids
        scores = result.scores
        if result.hits is not None:
            ids, scores = documents_of(result.hits)
        positions = within(ids, len(self._corpus), self._position)
        known = scores_of(scores, len(positions))
        positions, known, _, _ = in_order(positions, known)
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
            raise ValueError(f"{id_!r} is not a handle of this haystack")
        return self._position_of_handle[id_]
