"""mem0, the open-source package, with its vector store on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from harness.errors import UsageError
from harness.extensions.integrations.memories.endpoint_memory import MINILM, EndpointMemory
from harness.extensions.integrations.memories.mem0_parts import Embedding, Extractor, say_once
from harness.extensions.integrations.memories.session_feed import Batch, batches, line, role
from harness.io.files import TemporaryFolder
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.extras import there

_SCOPE = {"user_id": "haystack"}


@dataclass(kw_only=True, eq=False, repr=False)
class Mem0(EndpointMemory):
    """mem0 (open source): facts that a language model extracts, in an embedded Qdrant.

    `model` at `base_url` extracts (OpenAI-compatible; key: OPENAI_API_KEY); `infer=false` stores
    the words themselves. `embedder`: minilm (here), or a model of the endpoint. `batch`: session or
    turn at once. `threshold`: mem0's least similarity. `max_tokens`: of an extraction.
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
        # Read by mem0 when it is imported: nobody is told of the run, and nothing is left at home.
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = self._home.name
        from mem0 import __version__

        say_once("mem0.vector_stores.qdrant")
        self.version = str(__version__)

    def _asks_endpoint(self) -> bool:
        return self.infer or self.embedder != MINILM

    def index(self, corpus: Corpus) -> None:
        """Tell a new memory everything, in time order; what the last haystack left is removed.

        Raises what mem0 raises, and what it only logs of a language model or an embedding model
        that failed.
        """
        self._forget()
        self._begin()
        if self._embedder is not None and not self.infer:
            # Into the cache at once: mem0 asks for one after the other, which takes longer.
            self._embedder([line(document) for document in corpus])
        for batch in batches(corpus, self.batch, "mem0"):
            self._tell(batch)

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """The memories that mem0 finds, at most k a question, with mem0's own scores."""
        return [self._ask(query.text, k) for query in queries]

    def report(self) -> dict[str, object]:
        """What the endpoint says was used, and how many memories were kept of how many batches.

        mem0 searches by words too where fastembed is installed, and by entities where spacy is.
        """
        report = self._model_report() | {"batches": self._told, "memories": self._kept}
        return report | {"fastembed": there("fastembed"), "spacy": there("spacy")}

    def close(self) -> None:
        """Remove everything from this machine."""
        self._forget()
        self._home.cleanup()

    def _ask(self, text: str, k: int) -> list[Hit]:
        if not text.strip():  # which mem0 refuses
            return []
        with self._watched():
            found = self._memory.search(text, top_k=k, filters=_SCOPE, threshold=self.threshold)
        return [
            Hit(memory["memory"], _sources(memory), memory.get("score"))
            for memory in found["results"]
        ]

    def _tell(self, batch: Batch) -> None:
        self._extractor.date = None if batch.date is None else batch.date.date()
        if self.infer:
            self._add([{"role": role(d), "content": line(d)} for d in batch.documents], batch)
        else:  # one memory each, so that each can name its own document
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
        """mem0 logs some failures of its models and goes on without; here they are failures."""
        parts = (self._extractor, self._embedding)
        for part in parts:
            part.failure = None
        yield
        for part in parts:
            if part.failure is not None:
                raise RuntimeError(f"mem0 went on after {part.failure!r}") from part.failure

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
                raise UsageError(f"mem0 {self.version} keeps its client elsewhere: not supported")
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


def _sources(memory: dict[str, object]) -> tuple[str, ...]:
    metadata = memory.get("metadata")
    document = metadata.get("document") if isinstance(metadata, dict) else None
    return () if document is None else (document,)
