"""Memories that call a language model at an OpenAI-compatible endpoint: mem0 and Graphiti.

mem0 is the open-source package with a local vector store. Graphiti is the open-source engine of
Zep, a temporal graph of facts, here in embedded Kuzu.
"""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from harness.errors import UsageError
from harness.extensions.answers.endpoint import Endpoint
from harness.extensions.dense.embedder import Embedder
from harness.extensions.dense.minilm import packaged_embedder
from harness.extensions.integrations.memories.session_feed import (
    Batch,
    batches,
    check_batch,
    line,
    role,
)
from harness.io.files import TemporaryFolder
from harness.io.masking import excerpt
from harness.io.packages import is_installed, require_packages
from harness.retrievers.calls import await_result
from harness.retrievers.contract import Corpus, Hit, Question

MINILM = "minilm"


@dataclass(kw_only=True, eq=False, repr=False)
class EndpointMemory:
    """Shared parameters of such memories.

    `model` at `base_url` extracts facts (OpenAI-compatible; key: OPENAI_API_KEY). `embedder`:
    minilm (local), or a model of the endpoint. `batch`: add a session or a turn at a time.
    """

    modules: ClassVar[tuple[str, ...]]
    title: ClassVar[str]
    """Name in messages."""

    model: str = "gpt-4.1-mini"
    base_url: str = ""
    embedder: str = MINILM
    batch: str = "session"
    timeout: float = 120.0
    retries: int = 3

    def __post_init__(self) -> None:
        require_packages(self.title, *self.modules)
        check_batch(self.batch)
        self._endpoint = Endpoint(self.base_url, self.timeout, self.retries)
        if self._asks_endpoint():
            self._endpoint.check_key(self.title)
        self._embedder: Embedder | None = None
        if self.embedder == MINILM:
            self._embedder = packaged_embedder(f"{self.title} with embedder=minilm")

    def _asks_endpoint(self) -> bool:
        """Returns whether any model is called, which may need a key."""
        return True

    def _model_report(self) -> dict[str, object]:
        """Returns the usage of the endpoint and the embedder."""
        embedding = {"embedding": self._embedder.report()} if self._embedder is not None else {}
        return self._endpoint.report() | embedding


_SCOPE = {"user_id": "haystack"}


@dataclass(kw_only=True, eq=False, repr=False)
class Mem0(EndpointMemory):
    """mem0 (open source): facts extracted by a language model, stored in embedded Qdrant.

    `model` at `base_url` extracts facts (OpenAI-compatible; key: OPENAI_API_KEY); `infer=false`
    stores the texts unchanged. `embedder`: minilm (local), or a model of the endpoint. `batch`: add
    a session or a turn at a time. `threshold`: minimum similarity. `max_tokens`: limit of an
    extraction.
    """

    modules: ClassVar[tuple[str, ...]] = ("mem0",)
    title: ClassVar[str] = "retriever 'mem0'"

    infer: bool = True
    threshold: float = 0.1
    max_tokens: int = 8000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._told = self._kept = 0
        self._client: Any = None
        self._memory: Any = None
        self._home = TemporaryFolder("mem")
        # mem0 reads these on import: disable telemetry, and write nothing to the home folder.
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = self._home.name
        from mem0 import __version__

        say_once("mem0.vector_stores.qdrant")
        self.version = str(__version__)

    def _asks_endpoint(self) -> bool:
        return self.infer or self.embedder != MINILM

    def index(self, corpus: Corpus) -> None:
        """Adds the corpus to a new memory in time order, and deletes the previous one.

        Raises the errors of mem0, including model and embedding failures that it only logs.
        """
        self._forget()
        self._begin()
        if self._embedder is not None and not self.infer:
            # Fill the cache in one batch; mem0 embeds texts one by one, which is slower.
            self._embedder([line(document) for document in corpus])
        for batch in batches(corpus, self.batch, "mem0"):
            self._tell(batch)

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Returns mem0's memories with its scores, at most k per query."""
        return [self._ask(query.text, k) for query in queries]

    def report(self) -> dict[str, object]:
        """Returns the usage of the endpoint, and the number of memories and batches.

        mem0 also searches by words if fastembed is installed, and by entities if spacy is.
        """
        report = self._model_report() | {"batches": self._told, "memories": self._kept}
        return report | {"fastembed": is_installed("fastembed"), "spacy": is_installed("spacy")}

    def close(self) -> None:
        """Deletes all local data."""
        self._forget()
        self._home.cleanup()

    def _ask(self, text: str, k: int) -> list[Hit]:
        if not text.strip():  # mem0 rejects empty texts
            return []
        with self._watched():
            found = self._memory.search(text, top_k=k, filters=_SCOPE, threshold=self.threshold)
        return [
            Hit(memory["memory"], _mem0_sources(memory), memory.get("score"))
            for memory in found["results"]
        ]

    def _tell(self, batch: Batch) -> None:
        self._extractor.date = None if batch.date is None else batch.date.date()
        if self.infer:
            self._add([{"role": role(d), "content": line(d)} for d in batch.documents], batch)
        else:  # one memory each, so that each can identify its document
            for document in batch.documents:
                content = [{"role": role(document), "content": line(document)}]
                self._add(content, Batch([document]))
        self._told += 1

    def _add(self, messages: list[dict[str, str]], batch: Batch) -> None:
        metadata: dict[str, str] = {}
        if batch.date is not None:
            metadata["created_at"] = batch.date.isoformat()
        if batch.source is not None:
            metadata["document"] = batch.source
        with self._watched():
            made = self._memory.add(messages, **_SCOPE, metadata=metadata, infer=self.infer)
        self._kept += len(made["results"])

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Raises failures of its models that mem0 only logs."""
        parts = (self._extractor, self._embedding)
        for part in parts:
            part.failure = None
        yield
        for part in parts:
            if part.failure is not None:
                raise RuntimeError(f"mem0 continued after {part.failure!r}") from part.failure

    def _begin(self) -> None:
        from mem0 import Memory

        self._folder = TemporaryDirectory(prefix="haystack-", dir=self._home.name)
        folder = Path(self._folder.name)
        api = {"api_key": self._endpoint.key, "openai_base_url": self._endpoint.base_url}
        embedding = {**api, "model": self.embedder}
        store = {"path": str(folder / "qdrant"), "embedding_model_dims": self._dimension()}
        extraction = {**api, "model": self.model, "max_tokens": self.max_tokens}
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": extraction},
                "embedder": {"provider": "openai", "config": embedding},
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(folder / "history.db"),
            }
        )
        for part in (self._memory.llm, self._memory.embedding_model):
            if not hasattr(part, "client"):
                raise UsageError(f"mem0 {self.version} is not supported: its client has moved")
            part.client = self._openai()
        self._memory.llm = self._extractor = Extractor(self._memory.llm)
        self._embedding = Embedding(self._memory.embedding_model, self._embedder)
        self._memory.embedding_model = self._embedding

    def _dimension(self) -> int:
        if self._embedder is not None:
            return int(self._embedder(["dimension"]).shape[1])
        answer = self._openai().embeddings.create(model=self.embedder, input=["dimension"])
        return len(answer.data[0].embedding)

    def _openai(self) -> Any:
        if self._client is None:
            self._client = self._endpoint.client()
        return self._client

    def _forget(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.vector_store.client.close()
            memory.close()
            self._folder.cleanup()


def _mem0_sources(memory: dict[str, object]) -> tuple[str, ...]:
    metadata = memory.get("metadata")
    document = metadata.get("document") if isinstance(metadata, dict) else None
    return () if document is None else (document,)


_DATES = re.compile(r"^## (Observation|Current) Date\n.*$", re.MULTILINE)


_SAID: set[str] = set()


def say_once(logger: str) -> None:
    """Limits a logger to one copy of each message, since every haystack opens a store."""
    logging.getLogger(logger).addFilter(_first)


def _first(record: logging.LogRecord) -> bool:
    known = record.getMessage() in _SAID
    _SAID.add(record.getMessage())
    return not known


class Extractor:
    """mem0's language model with the dataset's date in the prompt, and validated responses.

    The open-source package writes today's date into the prompt, and treats invalid JSON as a
    response without facts. `failure` is the last exception, which mem0 may only log.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.config = model.config
        self.date: date | None = None
        self.failure: Exception | None = None

    def generate_response(self, messages: list[dict[str, str]], **rest: Any) -> str:
        """Returns the model's response. Raises ValueError if it is not a valid extraction."""
        try:
            *before, last = messages
            dated = {**last, "content": self._dated(last["content"])}
            answer = str(self._model.generate_response(messages=[*before, dated], **rest) or "")
            check_extraction(answer)
        except Exception as error:
            self.failure = error
            raise
        return answer

    def _dated(self, prompt: str) -> str:
        day = "unknown" if self.date is None else self.date.isoformat()
        if _DATES.search(prompt):
            return _DATES.sub(lambda match: f"## {match[1]} Date\n{day}", prompt)
        return f"## Observation Date\n{day}\n\n{prompt}"


def check_extraction(answer: str) -> None:
    """Raises ValueError unless `answer` has mem0's form: {"memory": [{"text": ...}, ...]}."""
    from mem0.memory.utils import extract_json, remove_code_blocks

    try:
        memories = json.loads(extract_json(remove_code_blocks(answer)), strict=False)["memory"]
        good = isinstance(memories, list) and all(isinstance(m.get("text"), str) for m in memories)
    except (ValueError, KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise ValueError(f"the model's extraction is not what mem0 expects: {excerpt(answer)}")


class Embedding:
    """mem0's embedding model, or a replacement `own`; `failure` is the last exception."""

    def __init__(self, model: Any, own: Callable[[list[str]], Any] | None) -> None:
        self._model = model
        self._own = own
        self.config = model.config
        self.failure: Exception | None = None

    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        """Returns the vector of one text."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: list[str], memory_action: Any = "add") -> list[list[float]]:
        """Returns the vectors of several texts."""
        try:
            if self._own is None:
                vectors: list[list[float]] = self._model.embed_batch(texts, memory_action)
            else:
                vectors = np.asarray(self._own(texts), float).tolist()
        except Exception as error:
            self.failure = error
            raise
        return vectors


_BEFORE = 10
"""Number of earlier episodes that Graphiti reads with a new one (its default)."""
_UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""Date of undated texts, since Graphiti requires one."""


@dataclass(kw_only=True, eq=False, repr=False)
class Graphiti(EndpointMemory):
    """Graphiti (Zep's open source): dated facts between entities, in an embedded Kuzu graph.

    `model` at `base_url` extracts facts (OpenAI-compatible; key: OPENAI_API_KEY), with several
    calls per episode. `batch`: an episode is a session or a turn; a fact refers to its episodes.
    `embedder`: minilm (local), or a model of the endpoint; `threshold`: minimum similarity.
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
        """Adds the corpus to a new graph in time order, and deletes the previous one.

        Raises the errors of Graphiti, including model failures that it only logs.
        """
        self._forget()
        await_result(self._begin())
        for batch in batches(corpus, self.batch, "graphiti"):
            await_result(self._tell(batch))

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Returns facts found by Graphiti's default search, which fuses words and vectors."""
        return [await_result(self._ask(query.text, k)) for query in queries]

    def report(self) -> dict[str, object]:
        """Returns the usage of the endpoint, and the number of facts and episodes."""
        return self._model_report() | {"episodes": self._told, "facts": self._facts}

    def close(self) -> None:
        """Deletes the graph."""
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

        with warnings.catch_warnings():  # Kuzu is discontinued, but it is the embedded backend
            warnings.simplefilter("ignore", DeprecationWarning)
            self._driver = KuzuDriver(":memory:")
        for statement in get_fulltext_indices(GraphProvider.KUZU):  # Graphiti's setup omits them
            await self._driver.execute_query(statement)
        client = self._endpoint.async_client()
        config = LLMConfig(api_key=self._endpoint.key, model=self.model, small_model=self.model)
        self._models = LanguageModel(config, client=client)
        self._graph = Engine(
            graph_driver=self._driver,
            llm_client=self._models,
            embedder=embedder(self.embedder, client, self._embedder),
            cross_encoder=OpenAIRerankerClient(config, client),  # required but unused
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
        """Returns the documents of a fact's episodes that consist of one document."""
        if all(episode in self._source_of for episode in episodes):
            return tuple(self._source_of[episode] for episode in episodes)
        return ()

    def _forget(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.client.close()
            driver.db.close()
