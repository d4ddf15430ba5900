"""Reranks the candidates of another retriever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.extensions.dense.models import Model, locate
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.hybrid import CandidateRanking, CandidateRetriever, RetrieverRef

Scorer = Callable[[str, list[str]], Any]
"""Maps a query and texts to one score per text, higher is better."""


class Rerank:
    """Reranks any retriever's candidates with a cross-encoder or a function.

    `retriever` is a name or {name, params}; its first `depth` documents are reranked, the rest
    follow unchanged. `reranker` is a cross-encoder (hub name, folder, package), or
    `file.py:function` or `package.module:function`, called with the query's text and a list of
    texts.
    """

    batch_size = 256

    def __init__(
        self,
        retriever: RetrieverRef = "bm25",
        reranker: str = "cross-encoder/ms-marco-MiniLM-L6-v2",
        depth: int = 100,
        batch_size: int = 32,
        device: str = "",
        seed: int = 0,
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be 1 or more, not {depth}")
        self._depth = depth
        self._pairs = 0
        if ":" in reranker:
            from harness.retrievers.registry import find

            self._score: Scorer = find(reranker)
            self._about: dict[str, str] = {"reranker": reranker}
        else:
            require_packages("a cross-encoder", "torch", "sentence_transformers")
            model = locate(reranker)
            self._score = CrossEncoder(model, batch_size, device)
            self._about = {"reranker": model.name, "revision": model.revision}
        self._stage = CandidateRetriever(retriever, seed)
        revisions = (self._stage.revision, self._about.get("revision"))
        self.revision = "+".join(filter(None, revisions)) or None

    def index(self, corpus: Corpus) -> None:
        """Indexes the corpus with the first retriever."""
        self._stage.index(corpus)
        self._texts = corpus.contents

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the candidates by their new scores, then the remaining results."""
        rankings = self._stage.search(queries, max(k, self._depth))
        return [
            self._again(query, found, k) for query, found in zip(queries, rankings, strict=True)
        ]

    def report(self) -> dict[str, object]:
        """Returns the reranker, its number of scored pairs, and the first retriever's report."""
        return {**self._about, "pairs": self._pairs, "retriever": self._stage.report()}

    def release(self) -> bool:
        """Releases resources that the first retriever shares with others."""
        return self._stage.release()

    def close(self) -> None:
        """Closes the first retriever."""
        self._stage.close()

    def _again(self, query: Question, found: CandidateRanking, k: int) -> Result:
        candidates, rest = np.split(found.positions, [self._depth])
        if not len(candidates):
            return Result([], abstain=found.abstain)
        texts = [self._texts[position] for position in candidates]
        scores = np.asarray(self._score(query.text, texts), float)
        if scores.shape != candidates.shape:
            raise ValueError(f"{len(texts)} texts, but the reranker returned {scores.shape} scores")
        self._pairs += len(texts)
        order = np.argsort(-scores, kind="stable")
        # Below the lowest candidate, in the original order.
        below = scores.min() - np.arange(1, len(rest) + 1)
        positions = np.concatenate([candidates[order], rest])
        return Result(positions[:k], np.concatenate([scores[order], below])[:k])


class CrossEncoder:
    """A cross-encoder of sentence-transformers, loaded at the first call."""

    def __init__(self, model: Model, batch_size: int, device: str) -> None:
        self._model = model
        self._batch_size = batch_size
        self._device = device
        self._loaded: Any = None

    def __call__(self, question: str, texts: list[str]) -> Any:
        """Returns the raw model score of each text; scaled to 0 to 1, many would be equal."""
        from torch.nn import Identity

        if self._loaded is None:
            from sentence_transformers import CrossEncoder as Loaded
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()  # from loading the weights
            self._loaded = Loaded(str(self._model.folder), device=self._device or None)
        return self._loaded.predict(
            [(question, text) for text in texts],
            batch_size=self._batch_size,
            show_progress_bar=False,
            activation_fn=Identity(),
        )
