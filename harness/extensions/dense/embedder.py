"""Embeds texts through the cache, and ranks documents by their vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from harness.extensions.dense.ann import Approximate
from harness.extensions.dense.embeddings import Keys, Store, digests, until_undamaged
from harness.extensions.dense.exact_search import Passages, Rows, Vectors, nearest
from harness.io.progress import progress
from harness.retrievers.contract import Corpus, Question, Result
from harness.scoring.arrays import unit

Parts = Callable[[], Iterable[Sequence[str]]]
"""Yields all texts in parts; each call yields the same ones again."""

_PART = 16_384
"""Number of documents with texts in memory at once."""

_HOLD_SECONDS = 0.5
"""Seconds for which a process starts new portions before it writes."""


class Encoder(Protocol):
    """A model that is loaded at the first call.

    `model` and `revision` determine its vectors; `at_once` is its preferred number of texts.
    """

    model: str
    revision: str
    at_once: int

    def __call__(self, texts: list[str], prompt: str) -> Vectors:
        """Returns vectors of shape (texts, dimension), each of `prompt` plus text."""
        ...


class Embedder:
    """An encoder with a cache on disk."""

    def __init__(self, encoder: Encoder, dtype: str = "float32") -> None:
        """`dtype` of vectors on disk is float32 or float16; ValueError for others."""
        self._encoder = encoder
        self._store = Store(encoder.model, encoder.revision, dtype)
        self._asked = self._embedded = 0
        self._seconds = self._waited = 0.0

    def __call__(self, texts: Sequence[str], prompt: str = "") -> Vectors:
        """Returns vectors of shape (texts, dimension). Cached texts are not embedded."""
        return until_undamaged(lambda: self.read(self.places(lambda: [texts], prompt)))

    def places(self, parts: Parts, prompt: str = "") -> Rows:
        """Returns the cache location of each text's vector; embeds texts that are not cached.

        Only the texts of one part are in memory. New vectors are stored within half a second and a
        portion of `at_once` texts.
        """
        self.dimension()
        keys = [digests(part, prompt) for part in parts()]
        places = [self._store.find(part) for part in keys]
        self._asked += _distinct(keys)
        missing = [part[found < 0] for part, found in zip(keys, places, strict=True)]
        if total := _distinct(missing):
            with progress(total, "texts", f"embed with {self._encoder.model}") as bar:
                for number, texts in enumerate(parts()):
                    if len(missing[number]):
                        self._embed(keys[number], texts, prompt, bar)
                        places[number] = self._store.find(keys[number])
        return np.concatenate([np.zeros(0, np.int64), *places])

    def read(self, places: Rows) -> Vectors:
        """Reads the vectors at `places`, shape (n, dimension). Raises DamagedVectorsError."""
        return self._store.read(places)

    def dimension(self) -> int:
        """Returns the dimension of a vector."""
        dimension = self._store.dimension()
        if dimension is None:
            dimension = self._encoder(["dimension"], "").shape[1]
            self._store.create(dimension)
        return dimension

    def report(self) -> dict[str, object]:
        """Returns the model and the savings of the cache; a text counts once per call."""
        report: dict[str, object] = {
            "model": self._encoder.model,
            "revision": self._encoder.revision,
            "texts_asked": self._asked,
            "texts_embedded": self._embedded,
            "embedding_seconds": self._seconds,
            "waited_seconds": self._waited,  # waiting for other processes
            "cache_bytes": self._store.bytes(),
        }
        if self._asked:
            report["cache_hit_rate"] = 1 - self._embedded / self._asked
        return report

    def _embed(self, keys: Keys, texts: Sequence[str], prompt: str, bar: Any) -> None:
        """Embeds missing texts in portions. Processes take turns of some portions each, so that no
        text is embedded twice.
        """
        missing = np.flatnonzero(self._store.find(keys) < 0)
        _, first = np.unique(keys[missing], axis=0, return_index=True)
        missing = missing[np.sort(first)]
        # Portions have one size and follow the given order, so a resumed run uses the same batches
        # and gets identical vectors.
        size = self._encoder.at_once
        portions = [missing[start : start + size] for start in range(0, len(missing), size)][::-1]
        while portions:
            began = perf_counter()
            with self._store.alone():
                locked = perf_counter()
                self._waited += locked - began
                made: list[tuple[Keys, Vectors]] = []
                try:
                    while portions and perf_counter() - locked < _HOLD_SECONDS:
                        portion = portions.pop()
                        # Skip what another process has added meanwhile.
                        mine = portion[self._store.find(keys[portion]) < 0]
                        if len(mine):
                            started = perf_counter()
                            vectors = self._encoder([texts[i] for i in mine], prompt)
                            made.append((keys[mine], vectors))
                            self._seconds += perf_counter() - started
                            self._embedded += len(mine)
                        bar.update(len(portion))
                finally:  # also vectors made before an error
                    if made:
                        self._store.add(*map(np.concatenate, zip(*made, strict=True)))


def _distinct(keys: Sequence[Keys]) -> int:
    """Returns the number of distinct keys, by their first halves."""
    return len(np.unique(np.concatenate([np.zeros(0, np.uint64), *(part[:, 0] for part in keys)])))


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """Options of a model that ranks by vectors; a prompt of None is the model's.

    `similarity`: cosine or dot. `dtype`: of vectors on disk, float32 or float16. `search`: exact,
    or an index of faiss with search parameters `probe`; see Approximate.
    """

    revision: str = ""
    query_prompt: str | None = None
    passage_prompt: str | None = None
    similarity: str = "cosine"
    dtype: str = "float32"
    search: str = "exact"
    probe: str = ""


class VectorRetriever:
    """Ranks documents by the similarity of their vectors to that of the query; exact by default."""

    batch_size = 1024
    """Number of queries answered in one pass over all vectors."""

    @property
    def supports_sharding(self) -> bool:
        """True for exact search: the score of a document depends only on it and the query."""
        return self._approximate is None

    def __init__(self, encoder: Encoder, options: VectorOptions) -> None:
        """Raises ValueError for an invalid option value."""
        if options.similarity not in ("cosine", "dot"):
            raise ValueError(f"similarity must be cosine or dot, not {options.similarity!r}")
        if options.probe and options.search == "exact":
            raise ValueError(f"probe={options.probe!r} has no effect with search=exact")
        self._embed = Embedder(encoder, options.dtype)
        exact = options.search == "exact"
        self._approximate = None if exact else Approximate(options.search, options.probe)
        self.revision = encoder.revision
        self._query_prompt = options.query_prompt or ""
        self._passage_prompt = options.passage_prompt or ""
        self._cosine = options.similarity == "cosine"

    def index(self, corpus: Corpus) -> None:
        """Embeds new documents; the rest is read from the cache."""
        parts = lambda: (block.contents for block in corpus.blocks(_PART))  # noqa: E731
        embed = self._embed

        def passages() -> Passages:
            places = embed.places(parts, self._passage_prompt)
            return Passages(embed.read, places, embed.dimension(), self._cosine)

        self._documents = until_undamaged(passages)
        if self._approximate:
            self._approximate.index(self._documents.pieces, len(self._documents), embed.dimension())

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k nearest documents of each query, best first."""
        vectors = self.of_questions([query.text for query in queries])
        if self._approximate:
            return self._approximate.search(vectors, k)
        return nearest(vectors, self._documents.pieces(len(vectors)), k)

    def report(self) -> dict[str, object]:
        """Returns the model, its revision, the savings of the cache, and approximate recall."""
        return self._embed.report() | (self._approximate.report() if self._approximate else {})

    def of_passages(self, texts: list[str]) -> Vectors:
        """Returns vectors of documents, shape (texts, dimension); unit length for cosine."""
        return self._vectors(texts, self._passage_prompt)

    def of_questions(self, texts: list[str]) -> Vectors:
        """Returns vectors of queries, in the same form."""
        return self._vectors(texts, self._query_prompt)

    def _vectors(self, texts: list[str], prompt: str) -> Vectors:
        vectors = self._embed(texts, prompt)
        return unit(vectors) if self._cosine else vectors
