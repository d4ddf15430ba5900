"""A second look at another retriever's candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.extensions.dense.models import Model, locate
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.hybrid import CandidateRanking, CandidateRetriever, RetrieverRef
from harness.retrievers.registry import need

Scorer = Callable[[str, list[str]], Any]
"""From a question and texts to one number a text, the higher the better."""


class Rerank:
    """Any retriever's candidates, ranked again by a cross-encoder or by a function.

    `retriever`: a name or {name, params}; `depth` of its documents are ranked again, those below
    stay below. `reranker`: a cross-encoder (hub name, folder, package), or `file.py:function` or
    `package.module:function`, called with the question's text and a list of texts.
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
            need("a cross-encoder", "torch", "sentence_transformers")
            model = locate(reranker)
            self._score = CrossEncoder(model, batch_size, device)
            self._about = {"reranker": model.name, "revision": model.revision}
        self._stage = CandidateRetriever(retriever, seed)
        revisions = (self._stage.revision, self._about.get("revision"))
        self.revision = "+".join(filter(None, revisions)) or None

    def index(self, corpus: Corpus) -> None:
        """Index the corpus in the first retriever."""
        self._stage.index(corpus)
        self._texts = corpus.contents

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The candidates by their new scores, then what the first retriever found below them."""
        rankings = self._stage.search(queries, max(k, self._depth))
        return [
            self._again(query, found, k) for query, found in zip(queries, rankings, strict=True)
        ]

    def report(self) -> dict[str, object]:
        """The reranker, how many pairs it scored, and what the first retriever says."""
        return {**self._about, "pairs": self._pairs, "retriever": self._stage.report()}

    def release(self) -> bool:
        """Let others use what the first retriever shares with them."""
        return self._stage.release()

    def close(self) -> None:
        """Close the first retriever."""
        self._stage.close()

    def _again(self, query: Question, found: CandidateRanking, k: int) -> Result:
        candidates, rest = np.split(found.positions, [self._depth])
        if not len(candidates):
            return Result([], abstain=found.abstain)
        texts = [self._texts[position] for position in candidates]
        scores = np.asarray(self._score(query.text, texts), float)
        if scores.shape != candidates.shape:
            raise ValueError(f"{len(texts)} texts, but the reranker gave {scores.shape} scores")
        self._pairs += len(texts)
        order = np.argsort(-scores, kind="stable")
        # Below the lowest of the candidates, in the order in which they came.
        below = scores.min() - np.arange(1, len(rest) + 1)
        positions = np.concatenate([candidates[order], rest])
        return Result(positions[:k], np.concatenate([scores[order], below])[:k])


class CrossEncoder:
    """A cross-encoder of sentence-transformers, loaded when it is first called."""

    def __init__(self, model: Model, batch_size: int, device: str) -> None:
        self._model = model
        self._batch_size = batch_size
        self._device = device
        self._loaded: Any = None

    def __call__(self, question: str, texts: list[str]) -> Any:
        """The model's own number for each text, not squeezed into 0 to 1, where many are equal."""
        from torch.nn import Identity

        if self._loaded is None:
            from sentence_transformers import CrossEncoder as Loaded
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()  # of reading the weights
            self._loaded = Loaded(str(self._model.folder), device=self._device or None)
        return self._loaded.predict(
            [(question, text) for text in texts],
            batch_size=self._batch_size,
            show_progress_bar=False,
            activation_fn=Identity(),
        )
