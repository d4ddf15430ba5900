"""Any retriever or index of LlamaIndex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from harness.extensions.dense.embedder import Embedder
from harness.extensions.dense.minilm import packaged_embedder
from harness.extensions.integrations.frameworks.build import (
    HANDLE,
    Builder,
    falling,
    hit,
    metadata,
    no_more_than,
)
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.extras import need
from harness.scoring.arrays import unit


class LlamaIndex:
    """Any LlamaIndex retriever or index, built from documents by a function or a class.

    `build`: `my.py:make`, called as make(documents), with embed_model=MiniLM where it takes one,
    and giving a BaseRetriever or an index; or a class with from_documents, such as
    llama_index.core:VectorStoreIndex. `options` are handed to it.
    """

    modules: ClassVar[tuple[str, ...]] = ("llama_index",)

    def __init__(
        self,
        build: str = "llama_index.core:VectorStoreIndex",
        options: Mapping[str, object] | None = None,
    ) -> None:
        need("retriever 'llamaindex'", *self.modules)
        self._build = Builder(build, options, ("embed_model",))
        self._embedder: Embedder | None = None
        if self._build.wants_embeddings:
            self._embedder = packaged_embedder(f"build={build!r}, which takes embed_model,")

    def index(self, corpus: Corpus) -> None:
        """Build from the corpus. Metadata stand beside the text, and are not embedded with it."""
        from llama_index.core import Document

        self._haystack = uuid4().hex
        documents: list[Any] = []
        self._about: dict[str, dict[str, object]] = {}
        for d in corpus:
            about = metadata(d, self._haystack)
            # A handle in the embedded text would be a key to the document.
            hidden = {name: [*about] for name in _HIDDEN}
            id_ = f"{self._haystack}/{d.id}"
            documents.append(Document(id_=id_, text=d.content, metadata=about, **hidden))
            self._about[id_] = about
        self._retriever: Any = None
        self._found: Any = None
        self._k = 0
        if not documents:  # of which not everything can be built
            return
        embed = None if self._embedder is None else _embedding(self._embedder)
        self._found = self._build(documents, embed, self._haystack)
        if not any(callable(getattr(self._found, name, None)) for name in _WAYS):
            raise TypeError(f"a {type(self._found).__name__} is no BaseRetriever and no index")

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """At most k hits a question; a retriever with a number of its own may give fewer."""
        if self._found is None:
            return [[] for _ in queries]
        n = len(self._about)
        return [no_more_than(n, k, partial(self._ask, query.text)) for query in queries]

    def report(self) -> dict[str, object]:
        """What the embeddings' cache saved, where they are used."""
        return {} if self._embedder is None else {"embedding": self._embedder.report()}

    def _ask(self, text: str, k: int) -> list[Hit]:
        if not text:  # which LlamaIndex does not embed, and then fails
            return []
        if self._retriever is None or k != self._k:
            self._retriever, self._k = self._of_depth(k), k
        found = self._retriever.retrieve(text)[:k]
        scores = [None if one.score is None else float(one.score) for one in found]
        if not falling(scores):
            scores = [None] * len(found)
        return [self._hit(one.node, score) for one, score in zip(found, scores, strict=True)]

    def _hit(self, node: Any, score: float | None) -> Hit:
        """By the node's metadata, or by the document that it was cut from."""
        about = node.metadata if HANDLE in node.metadata else self._about.get(node.ref_doc_id, {})
        return hit(node.get_content(), about, self._haystack, score)

    def _of_depth(self, k: int) -> Any:
        if callable(getattr(self._found, "as_retriever", None)):
            return self._found.as_retriever(similarity_top_k=k)
        if hasattr(self._found, "similarity_top_k"):
            self._found.similarity_top_k = k
        return self._found


_HIDDEN = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_WAYS = ("retrieve", "as_retriever")


def _embedding(embedder: Embedder) -> Any:
    """The packaged MiniLM behind the harness's cache, as LlamaIndex's model; vectors of length 1.

    The class stands in here, since its base comes with LlamaIndex.
    """
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class MiniLMEmbedding(BaseEmbedding):  # type: ignore[misc]
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = unit(embedder(texts)).tolist()
            return vectors

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    return MiniLMEmbedding(model_name="all-MiniLM-L6-v2", embed_batch_size=128)
