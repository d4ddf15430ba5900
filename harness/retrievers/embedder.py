"""Texts to vectors, from the cache where they are kept, else from the model; ranking by them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.embeddings import Store, Vectors, key
from harness.retrievers.nearest import nearest, unit


class Encoder(Protocol):
    """A model that is loaded when it is first called.

    `model` and `revision` fix its vectors; `at_once` is how many texts it likes to be given.
    """

    model: str
    revision: str
    at_once: int

    def __call__(self, texts: list[str], prompt: str) -> Vectors:
        """Vectors of shape (texts, dimension), each of `prompt` and text."""
        ...


class Embedder:
    """An encoder behind the cache on disk."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._store = Store(encoder.model, encoder.revision)
        self._asked = self._embedded = 0
        self._seconds = self._waited = 0.0

    def __call__(self, texts: Sequence[str], prompt: str = "") -> Vectors:
        """Vectors of shape (texts, dimension). A text that is there already is not embedded."""
        by_key = {key(text, prompt): text for text in texts}
        row = {key_: i for i, key_ in enumerate(by_key)}
        keys, distinct = list(by_key), list(by_key.values())
        vectors = np.empty((len(keys), self._dimension()), np.float32)
        missing = np.flatnonzero(~self._store.fill(keys, vectors))
        self._asked += len(keys)
        if len(missing):
            self._embed(keys, distinct, prompt, vectors, missing)
        if len(keys) == len(texts):
            return vectors
        return vectors[[row[key(text, prompt)] for text in texts]]

    def report(self) -> dict[str, Any]:
        """Which model, and what the cache saved; texts are counted once a call."""
        report: dict[str, Any] = {
            "model": self._encoder.model,
            "revision": self._encoder.revision,
            "texts_asked": self._asked,
            "texts_embedded": self._embedded,
            "embedding_seconds": self._seconds,
            "waited_seconds": self._waited,  # for other processes that embedded
            "cache_bytes": self._store.bytes(),
        }
        if self._asked:
            report["cache_hit_rate"] = 1 - self._embedded / self._asked
        return report

    def _dimension(self) -> int:
        dimension = self._store.dimension()
        if dimension is None:
            dimension = self._encoder(["dimension"], "").shape[1]
            self._store.create(dimension)
        return dimension

    def _embed(
        self,
        keys: list[bytes],
        texts: list[str],
        prompt: str,
        vectors: Vectors,
        missing: npt.NDArray[np.int64],
    ) -> None:
        """Embed the missing rows in portions, each kept as soon as it is there.

        One process embeds at a time, a portion each in turn, so that no two embed the same text.
        """
        # Portions of one size in the given order: a run that was stopped goes on with the very
        # batches it would have had, and so with the very same vectors.
        size = self._encoder.at_once
        with _progress(len(missing), self._encoder.model) as bar:
            for start in range(0, len(missing), size):
                portion = missing[start : start + size]
                began = perf_counter()
                with self._store.alone():
                    self._waited += perf_counter() - began
                    self._portion(keys, texts, prompt, vectors, portion)
                bar.update(len(portion))

    def _portion(
        self,
        keys: list[bytes],
        texts: list[str],
        prompt: str,
        vectors: Vectors,
        portion: npt.NDArray[np.int64],
    ) -> None:
        """Embed and keep one portion, less what another process has brought meanwhile."""
        there = np.empty((len(portion), vectors.shape[1]), np.float32)
        brought = self._store.fill([keys[i] for i in portion], there)
        vectors[portion[brought]] = there[brought]
        portion = portion[~brought]
        if not len(portion):
            return
        started = perf_counter()
        vectors[portion] = self._encoder([texts[i] for i in portion], prompt)
        self._seconds += perf_counter() - started
        self._store.add([keys[i] for i in portion], vectors[portion])
        self._embedded += len(portion)


class VectorRetriever:
    """Ranks documents by the similarity of their vectors to the question's, exactly."""

    batch_size = 256

    def __init__(
        self, encoder: Encoder, query_prompt: str, passage_prompt: str, similarity: str
    ) -> None:
        """`similarity`: cosine or dot. Raises ValueError for any other."""
        if similarity not in ("cosine", "dot"):
            raise ValueError(f"similarity must be cosine or dot, not {similarity!r}")
        self._embed = Embedder(encoder)
        self.revision = encoder.revision
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt
        self._cosine = similarity == "cosine"

    def index(self, corpus: Corpus) -> None:
        """Embed what was never embedded; the rest comes from the cache."""
        self._documents = self.of_passages(corpus.contents)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k nearest documents of each question, best first."""
        vectors = self.of_questions([query.text for query in queries])
        return nearest(vectors, self._documents, k)

    def report(self) -> dict[str, Any]:
        """The model, its revision, and what the cache saved."""
        return self._embed.report()

    def of_passages(self, texts: list[str]) -> Vectors:
        """Vectors of documents, shape (texts, dimension); of length 1 where cosine is asked for."""
        return self._vectors(texts, self._passage_prompt)

    def of_questions(self, texts: list[str]) -> Vectors:
        """Vectors of questions, as those of documents."""
        return self._vectors(texts, self._query_prompt)

    def _vectors(self, texts: list[str], prompt: str) -> Vectors:
        vectors = self._embed(texts, prompt)
        return unit(vectors) if self._cosine else vectors


def _progress(total: int, model: str) -> Any:
    """Rate and time left where it takes a while: a bar, or in a log a line now and then.

    TQDM_DISABLE silences it.
    """
    from tqdm import tqdm

    log = not sys.stderr.isatty()
    return tqdm(
        total=total,
        unit="text",
        desc=f"embed with {model}",
        disable=bool(os.environ.get("TQDM_DISABLE")),
        delay=20 if log else 1,
        mininterval=30 if log else 0.1,
        leave=False,
    )
