"""MiniLM as LlamaIndex's embedding model. Imported only where LlamaIndex is installed."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from harness.retrievers.embedder import Embedder
from harness.retrievers.nearest import unit


class MiniLMEmbedding(BaseEmbedding):  # type: ignore[misc]
    """The packaged MiniLM behind the harness's cache; vectors have length 1."""

    _embed: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder, **options: Any) -> None:
        super().__init__(model_name="all-MiniLM-L6-v2", embed_batch_size=128, **options)
        self._embed = embedder

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = unit(self._embed(texts)).tolist()
        return vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)
