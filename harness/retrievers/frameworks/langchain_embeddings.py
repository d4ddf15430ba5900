"""MiniLM as LangChain's embeddings. Imported only where LangChain is installed."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from harness.retrievers.embedder import Embedder
from harness.retrievers.nearest import unit


class MiniLMEmbeddings(Embeddings):  # type: ignore[misc]
    """The packaged MiniLM behind the harness's cache; vectors have length 1."""

    def __init__(self, embedder: Embedder) -> None:
        self._embed = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of some texts."""
        vectors: list[list[float]] = unit(self._embed(texts)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text."""
        return self.embed_documents([text])[0]
