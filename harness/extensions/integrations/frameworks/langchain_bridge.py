"""Any retriever or vector store of LangChain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from harness.extensions.dense.embedder import Embedder
from harness.extensions.dense.minilm import packaged_embedder
from harness.extensions.integrations.frameworks.build import (
    Builder,
    falling,
    hit,
    metadata,
    no_more_than,
)
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.extras import need
from harness.scoring.arrays import unit


class LangChain:
    """Any LangChain retriever or vector store, built from documents by a function or a class.

    `build`: `my.py:make`, called as make(documents), with embeddings=MiniLM where it takes them,
    and giving a BaseRetriever or VectorStore; or a class with from_documents, such as
    langchain_core.vectorstores:InMemoryVectorStore. `options` are handed to it.
    """

    modules: ClassVar[tuple[str, ...]] = ("langchain_core",)

    def __init__(self, build: str = "", options: Mapping[str, object] | None = None) -> None:
        need("retriever 'langchain'", *self.modules)
        self._build = Builder(build, options, ("embedding", "embeddings"))
        self._embedder: Embedder | None = None
        if self._build.wants_embeddings:
            self._embedder = packaged_embedder(f"build={build!r}, which takes embeddings,")
        self._found: Any = None

    def index(self, corpus: Corpus) -> None:
        """Build from the corpus; what was built before is emptied, where it can be."""
        from langchain_core.documents import Document
        from langchain_core.vectorstores import VectorStore

        self._forget()
        self._haystack = uuid4().hex
        documents = [
            Document(id=d.id, page_content=d.content, metadata=metadata(d, self._haystack))
            for d in corpus
        ]
        self._n = len(documents)
        if not documents:  # of which few stores can be built
            return
        embeddings = None if self._embedder is None else _embeddings(self._embedder)
        self._found = self._build(documents, embeddings, self._haystack)
        self._is_store = isinstance(self._found, VectorStore)
        if not self._is_store and not callable(getattr(self._found, "invoke", None)):
            raise TypeError(f"a {type(self._found).__name__} is no BaseRetriever or VectorStore")
        self._sign = self._direction(documents) if self._is_store else 0

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """At most k hits a question; a retriever with a number of its own may give fewer."""
        return [no_more_than(self._n, k, partial(self._ask, query.text)) for query in queries]

    def report(self) -> dict[str, object]:
        """What the embeddings' cache saved, where they are used."""
        return {} if self._embedder is None else {"embedding": self._embedder.report()}

    def close(self) -> None:
        """Empty the store."""
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
        if not falling(scores):
            scores = [None] * len(pairs)
        return [
            hit(found.page_content, found.metadata, self._haystack, score)
            for (found, _), score in zip(pairs, scores, strict=True)
        ]

    def _retrieve(self, text: str, k: int) -> list[Any]:
        """Ask a retriever for k, in the two ways that LangChain's own ones can be asked."""
        if "k" in getattr(type(self._found), "model_fields", {}):
            self._found.k = k
        if isinstance(getattr(self._found, "search_kwargs", None), dict):
            self._found.search_kwargs["k"] = k
        return list(self._found.invoke(text))

    def _direction(self, documents: list[Any]) -> int:
        """1 where the store's scores are similarities, -1 for distances, 0 where it is not known.

        Stores differ, and do not say; but their answers are best first.
        """
        try:
            first = documents[0].page_content
            pairs = self._found.similarity_search_with_score(first, k=min(10, len(documents)))
        except NotImplementedError:
            return 0
        best, worst = (float(pairs[0][1]), float(pairs[-1][1])) if pairs else (0.0, 0.0)
        return (best > worst) - (best < worst)

    def _forget(self) -> None:
        """Several stores keep a collection for as long as the process lives."""
        found, self._found = self._found, None
        if callable(getattr(found, "delete_collection", None)):
            found.delete_collection()


def _embeddings(embedder: Embedder) -> Any:
    """The packaged MiniLM behind the harness's cache, as LangChain's model; vectors of length 1.

    The class stands in here, since its base comes with LangChain.
    """
    from langchain_core.embeddings import Embeddings

    class MiniLMEmbeddings(Embeddings):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = unit(embedder(texts)).tolist()
            return vectors

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    return MiniLMEmbeddings()
