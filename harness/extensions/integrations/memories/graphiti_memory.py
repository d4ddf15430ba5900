"""Graphiti, the open-source engine of Zep: a temporal graph of facts, embedded (Kuzu)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from harness.extensions.integrations.memories.endpoint_memory import EndpointMemory
from harness.extensions.integrations.memories.session_feed import Batch, batches, line
from harness.retrievers.calls import awaited
from harness.retrievers.contract import Corpus, Hit, Question

_BEFORE = 10
"""How many earlier episodes Graphiti reads beside a new one, as by its own default."""
_UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""Graphiti wants a date for everything. What has none gets one that is plainly no date."""


@dataclass(kw_only=True, eq=False, repr=False)
class Graphiti(EndpointMemory):
    """Graphiti (Zep's open source): dated facts between entities, in an embedded Kuzu graph.

    `model` at `base_url` extracts (OpenAI-compatible; key: OPENAI_API_KEY), with several calls an
    episode. `batch`: a session or a turn is an episode; a fact names the episodes it comes from.
    `embedder`: minilm (here), or a model of the endpoint; `threshold`: its least similarity.
    """

    modules: ClassVar[tuple[str, ...]] = ("graphiti_core", "kuzu", "httpx")
    title: ClassVar[str] = "retriever 'graphiti'"

    threshold: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._told = self._facts = 0
        self._driver: Any = None
        os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
        from importlib.metadata import version

        self.version = version("graphiti-core")

    def index(self, corpus: Corpus) -> None:
        """Tell a new graph everything, in time order; the last haystack's is removed.

        Raises what Graphiti raises, and what it only logs of a model's failure.
        """
        self._forget()
        awaited(self._begin())
        for batch in batches(corpus, self.batch, "graphiti"):
            awaited(self._tell(batch))

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """The facts that Graphiti's default search finds: by words and by vectors, fused."""
        return [awaited(self._ask(query.text, k)) for query in queries]

    def report(self) -> dict[str, object]:
        """What the endpoint says was used, and how many facts came of how many episodes."""
        return self._model_report() | {"episodes": self._told, "facts": self._facts}

    def close(self) -> None:
        """Remove the graph."""
        self._forget()

    async def _begin(self) -> None:
        from graphiti_core import Graphiti as Engine
        from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
        from graphiti_core.driver.driver import GraphProvider
        from graphiti_core.driver.kuzu_driver import KuzuDriver
        from graphiti_core.graph_queries import get_fulltext_indices
        from graphiti_core.llm_client.config import LLMConfig
        from graphiti_core.search.search_config_recipes import EDGE_HYBRID_SEARCH_RRF

        from harness.extensions.integrations.memories.graphiti_parts import LanguageModel, embedder

        with warnings.catch_warnings():  # Kuzu is no longer developed; it is what runs embedded
            warnings.simplefilter("ignore", DeprecationWarning)
            self._driver = KuzuDriver(":memory:")
        for statement in get_fulltext_indices(GraphProvider.KUZU):  # its own setup leaves them out
            await self._driver.execute_query(statement)
        client = self._endpoint.async_client()
        config = LLMConfig(api_key=self._endpoint.key, model=self.model, small_model=self.model)
        self._models = LanguageModel(config, client=client)
        self._graph = Engine(
            graph_driver=self._driver,
            llm_client=self._models,
            embedder=embedder(self.embedder, client, self._embedder),
            cross_encoder=OpenAIRerankerClient(config, client),  # has to be there, is not used
        )
        self._search = EDGE_HYBRID_SEARCH_RRF.model_copy(deep=True)
        self._search.edge_config.sim_min_score = self.threshold
        self._episodes: list[str] = []
        self._source_of: dict[str, str] = {}

    async def _tell(self, batch: Batch) -> None:
        from graphiti_core.nodes import EpisodeType

        said = all(document.speaker for document in batch.documents)
        added = await self._graph.add_episode(
            name=f"episode {len(self._episodes)}",
            episode_body="\n".join(line(document, roles=True) for document in batch.documents),
            source_description="conversation" if said else "document",
            reference_time=batch.date.replace(tzinfo=UTC) if batch.date else _UNDATED,
            source=EpisodeType.message if said else EpisodeType.text,
            previous_episode_uuids=self._episodes[-_BEFORE:],
        )
        self._models.raise_failure()
        self._episodes.append(added.episode.uuid)
        if batch.source is not None:
            self._source_of[added.episode.uuid] = batch.source
        self._told += 1
        self._facts += len(added.edges)

    async def _ask(self, text: str, k: int) -> list[Hit]:
        found = await self._graph.search_(text, self._search.model_copy(update={"limit": k}))
        facts = zip(found.edges, found.edge_reranker_scores, strict=True)
        return [Hit(fact.fact, self._sources(fact.episodes), score) for fact, score in facts]

    def _sources(self, episodes: Sequence[str]) -> tuple[str, ...]:
        """The documents of a fact's episodes, where each of those is one document."""
        if all(episode in self._source_of for episode in episodes):
            return tuple(self._source_of[episode] for episode in episodes)
        return ()

    def _forget(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.client.close()
            driver.db.close()
