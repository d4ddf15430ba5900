"""What every retriever on vectors shares: the cache, prompts, similarity, exact search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.embedder import Embedder, Encoder
from harness.retrievers.embeddings import Vectors
from harness.retrievers.nearest import nearest, unit


class VectorRetriever:
    """Ranks documents by the similarity of their vectors to the question's, exactly."""

    batch_size = 256

    def __init__(
        self, encoder: Encoder, query_prompt: str, passage_prompt: str, similarity: str
    ) -> None:
        """`similarity`: cosine or dot. Raises ValueError for any other."""
        if similarity not in ("cosine", "dot"):
            raise ValueError(f"similarity must be cosine or dot, not {similarity!r}")
        self._embed = Embedder(encoder)
        self.revision = encoder.revision
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt
        self._cosine = similarity == "cosine"

    def index(self, corpus: Corpus) -> None:
        """Embed what was never embedded; the rest comes from the cache."""
        self._documents = self.of_passages(corpus.contents)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k nearest documents of each question, best first."""
        vectors = self.of_questions([query.text for query in queries])
        return nearest(vectors, self._documents, k)

    def report(self) -> dict[str, Any]:
        """The model, its revision, and what the cache saved."""
        return self._embed.report()

    def of_passages(self, texts: list[str]) -> Vectors:
        """Vectors of documents, shape (texts, dimension); of length 1 where cosine is asked for."""
        return self._vectors(texts, self._passage_prompt)

    def of_questions(self, texts: list[str]) -> Vectors:
        """Vectors of questions, as those of documents."""
        return self._vectors(texts, self._query_prompt)

    def _vectors(self, texts: list[str], prompt: str) -> Vectors:
        vectors = self._embed(texts, prompt)
        return unit(vectors) if self._cosine else vectors
