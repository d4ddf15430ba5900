"""LangChain and LlamaIndex retrievers, vector stores and indexes as retrievers."""

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
    hits,
    metadata,
    no_more_than,
)
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Hit, Question
from harness.scoring.arrays import unit


class DocumentFramework:
    """Base of the LangChain and LlamaIndex bridges: a builder, and optional embeddings."""

    modules: ClassVar[tuple[str, ...]]

    def _prepare(
        self,
        name: str,
        build: str,
        options: Mapping[str, object] | None,
        embeddings: Sequence[str],
    ) -> None:
        require_packages(f"retriever {name!r}", *self.modules)
        self._build = Builder(build, options, embeddings)
        self._embedder: Embedder | None = None
        if self._build.wants_embeddings:
            self._embedder = packaged_embedder(f"build={build!r}, which takes {embeddings[-1]},")

    def report(self) -> dict[str, object]:
        """Reports the savings of the embeddings' cache, if used."""
        return {} if self._embedder is None else {"embedding": self._embedder.report()}


def _vectors(embedder: Embedder, texts: list[str]) -> list[list[float]]:
    """Returns unit-length vectors of the packaged MiniLM, through the harness's cache."""
    vectors: list[list[float]] = unit(embedder(texts)).tolist()
    return vectors


class LangChain(DocumentFramework):
    """Any LangChain retriever or vector store, built from documents by a function or a class.

    `build` is `my.py:make`, called as make(documents), with embeddings=MiniLM if it accepts them,
    which returns a BaseRetriever or VectorStore; or a class with from_documents, such as
    langchain_core.vectorstores:InMemoryVectorStore. It receives `options`.
    """

    modules: ClassVar[tuple[str, ...]] = ("langchain_core",)

    def __init__(self, build: str = "", options: Mapping[str, object] | None = None) -> None:
        self._prepare("langchain", build, options, ("embedding", "embeddings"))
        self._found: Any = None

    def index(self, corpus: Corpus) -> None:
        """Builds from the corpus, and empties the previous store if possible."""
        from langchain_core.documents import Document
        from langchain_core.vectorstores import VectorStore

        self._forget()
        self._haystack = uuid4().hex
        documents = [
            Document(id=d.id, page_content=d.content, metadata=metadata(d, self._haystack))
            for d in corpus
        ]
        self._n = len(documents)
        if not documents:  # few stores can be built from nothing
            return
        embeddings = None if self._embedder is None else _embeddings(self._embedder)
        self._found = self._build(documents, embeddings, self._haystack)
        self._is_store = isinstance(self._found, VectorStore)
        if not self._is_store and not callable(getattr(self._found, "invoke", None)):
            raise TypeError(f"a {type(self._found).__name__} is not a BaseRetriever or VectorStore")
        self._sign = self._direction(documents) if self._is_store else 0

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Returns at most k hits per query; a retriever with its own limit may return fewer."""
        return [no_more_than(self._n, k, partial(self._ask, query.text)) for query in queries]

    def close(self) -> None:
        """Empties the store."""
        self._forget()

    def _ask(self, text: str, k: int) -> list[Hit]:
        if self._found is None:
            return []
        if self._is_store and self._sign:
            pairs = self._found.similarity_search_with_score(text, k=k)[:k]
        elif self._is_store:
            pairs = [(found, None) for found in self._found.similarity_search(text, k=k)[:k]]
        else:
            pairs = [(found, None) for found in self._retrieve(text, k)[:k]]
        scores = [None if score is None else self._sign * float(score) for _, score in pairs]
        found = [(one.page_content, one.metadata) for one, _ in pairs]
        return hits(
            [(*one, score) for one, score in zip(found, scores, strict=True)], self._haystack
        )

    def _retrieve(self, text: str, k: int) -> list[Any]:
        """Calls a retriever with k, in one of the two ways that LangChain supports."""
        if "k" in getattr(type(self._found), "model_fields", {}):
            self._found.k = k
        if isinstance(getattr(self._found, "search_kwargs", None), dict):
            self._found.search_kwargs["k"] = k
        return list(self._found.invoke(text))

    def _direction(self, documents: list[Any]) -> int:
        """Returns 1 if the store's scores are similarities, -1 for distances, 0 if unknown.

        Stores do not state which, but their results are best first.
        """
        try:
            first = documents[0].page_content
            pairs = self._found.similarity_search_with_score(first, k=min(10, len(documents)))
        except NotImplementedError:
            return 0
        best, worst = (float(pairs[0][1]), float(pairs[-1][1])) if pairs else (0.0, 0.0)
        return (best > worst) - (best < worst)

    def _forget(self) -> None:
        """Deletes the collection, which several stores keep as long as the process runs."""
        found, self._found = self._found, None
        if callable(getattr(found, "delete_collection", None)):
            found.delete_collection()


def _embeddings(embedder: Embedder) -> Any:
    """Returns MiniLM as LangChain's Embeddings; imports LangChain."""
    from langchain_core.embeddings import Embeddings

    class MiniLMEmbeddings(Embeddings):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return _vectors(embedder, texts)

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    return MiniLMEmbeddings()


class LlamaIndex(DocumentFramework):
    """Any LlamaIndex retriever or index, built from documents by a function or a class.

    `build` is `my.py:make`, called as make(documents), with embed_model=MiniLM if it accepts it,
    which returns a BaseRetriever or an index; or a class with from_documents, such as
    llama_index.core:VectorStoreIndex. It receives `options`.
    """

    modules: ClassVar[tuple[str, ...]] = ("llama_index",)

    def __init__(
        self,
        build: str = "llama_index.core:VectorStoreIndex",
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._prepare("llamaindex", build, options, ("embed_model",))

    def index(self, corpus: Corpus) -> None:
        """Builds from the corpus. Metadata are excluded from the embedded text."""
        from llama_index.core import Document

        self._haystack = uuid4().hex
        documents: list[Any] = []
        self._about: dict[str, dict[str, object]] = {}
        for d in corpus:
            about = metadata(d, self._haystack)
            # A handle in the embedded text would identify the document.
            hidden = {name: [*about] for name in _HIDDEN}
            id_ = f"{self._haystack}/{d.id}"
            documents.append(Document(id_=id_, text=d.content, metadata=about, **hidden))
            self._about[id_] = about
        self._retriever: Any = None
        self._found: Any = None
        self._k = 0
        if not documents:  # not everything can be built from nothing
            return
        embed = None if self._embedder is None else _embedding(self._embedder)
        self._found = self._build(documents, embed, self._haystack)
        if not any(callable(getattr(self._found, name, None)) for name in _WAYS):
            raise TypeError(f"a {type(self._found).__name__} is not a BaseRetriever or index")

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Returns at most k hits per query; a retriever with its own limit may return fewer."""
        if self._found is None:
            return [[] for _ in queries]
        n = len(self._about)
        return [no_more_than(n, k, partial(self._ask, query.text)) for query in queries]

    def _ask(self, text: str, k: int) -> list[Hit]:
        if not text:  # LlamaIndex does not embed it and fails
            return []
        if self._retriever is None or k != self._k:
            self._retriever, self._k = self._of_depth(k), k
        found = self._retriever.retrieve(text)[:k]
        return hits([self._read(one) for one in found], self._haystack)

    def _read(self, found: Any) -> tuple[str, Mapping[str, object], float | None]:
        """Returns text, metadata and score; a node without our metadata inherits its document's."""
        node, score = found.node, found.score
        about = node.metadata if HANDLE in node.metadata else self._about.get(node.ref_doc_id, {})
        return node.get_content(), about, None if score is None else float(score)

    def _of_depth(self, k: int) -> Any:
        if callable(getattr(self._found, "as_retriever", None)):
            return self._found.as_retriever(similarity_top_k=k)
        if hasattr(self._found, "similarity_top_k"):
            self._found.similarity_top_k = k
        return self._found


_HIDDEN = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_WAYS = ("retrieve", "as_retriever")


def _embedding(embedder: Embedder) -> Any:
    """Returns MiniLM as LlamaIndex's embedding model; imports LlamaIndex."""
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class MiniLMEmbedding(BaseEmbedding):  # type: ignore[misc]
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return _vectors(embedder, texts)

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    return MiniLMEmbedding(model_name="all-MiniLM-L6-v2", embed_batch_size=128)
