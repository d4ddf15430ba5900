"""Subclasses of Graphiti's models. Imported only if Graphiti is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphiti_core.embedder.client import EmbedderClient
from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient


class LanguageModel(OpenAIGenericClient):  # type: ignore[misc]
    """Graphiti's client of any OpenAI-compatible endpoint, which records failures.

    If the model fails to date a fact, Graphiti logs it and stores the fact undated.
    """

    failure: Exception | None = None

    async def generate_response(self, *args: Any, **options: Any) -> Any:
        """Returns the model's response, after Graphiti's retries."""
        try:
            return await super().generate_response(*args, **options)
        except Exception as error:
            self.failure = error
            raise

    def raise_failure(self) -> None:
        """Raises RuntimeError if a call failed and Graphiti continued."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise RuntimeError(f"graphiti continued after {failure!r}") from failure


class Here(EmbedderClient):  # type: ignore[misc]
    """Adapts a function from texts to vectors to Graphiti's embedder."""

    def __init__(self, embed: Callable[[list[str]], Any]) -> None:
        self._embed = embed

    async def create(self, input_data: Any) -> list[float]:
        """Returns the vector of one text, which Graphiti passes alone or in a list."""
        texts = [input_data] if isinstance(input_data, str) else list(input_data)
        return (await self.create_batch(texts))[0]

    async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
        """Returns the vectors of several texts."""
        return [vector.tolist() for vector in self._embed(input_data_list)]


def embedder(model: str, client: Any, own: Callable[[list[str]], Any] | None) -> Any:
    """Returns `own` as an embedder, else the endpoint's `model`."""
    if own is not None:
        return Here(own)
    return OpenAIEmbedder(OpenAIEmbedderConfig(embedding_model=model), client)
