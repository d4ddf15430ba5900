"""What the stores of vectors share: where the vectors come from, and a collection's life."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.extensions.dense.dense import MODEL, Dense
from harness.extensions.dense.embedder import VectorRetriever
from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.minilm import PACKAGED, MiniLM
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.extras import need

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Found = tuple[Positions, Scores]
"""The answer to one question: positions in the corpus and similarities, both of shape (n,)."""


@dataclass(kw_only=True, eq=False, repr=False)
class VectorStore:
    """Ranks documents by the similarity of their vectors, in a store that does the search.

    The vectors are those of minilm or dense, from the same cache. Each corpus has a collection of
    its own, of a new name, that is removed when the next corpus comes, on `close()`, and at the
    latest when the process ends. A store's file says how to make one, fill it and search it.

    `encoder`: minilm or dense; `model`: the encoder's own default if empty. A prompt that is None
    is the model's own. `similarity`: cosine or dot.
    """

    batch_size = 256
    title: ClassVar[str]
    """What messages call it."""
    modules: ClassVar[tuple[str, ...]]
    """The modules that it needs, the store's own first."""
    package: ClassVar[str]
    """The distribution whose version is reported."""

    similarity: str = "cosine"
    encoder: str = "minilm"
    model: str = ""
    revision: str = ""
    query_prompt: str | None = None
    passage_prompt: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError without the store's package, ValueError for an unknown encoder."""
        need(self.title, self.modules[0])
        options = {
            "revision": self.revision,
            "query_prompt": self.query_prompt,
            "passage_prompt": self.passage_prompt,
            "similarity": self.similarity,
        }
        if self.encoder == "minilm":
            self._texts: VectorRetriever = MiniLM(self.model or PACKAGED, **options)
        elif self.encoder == "dense":
            self._texts = Dense(self.model or MODEL, **options)
        else:
            raise ValueError(f"encoder must be minilm or dense, not {self.encoder!r}")
        self._store = f"{self.package} {version(self.package)}"
        self.revision = f"{self._texts.revision}, {self._store}"
        self._remove: Callable[[], object] | None = None
        self._size = 0

    def index(self, corpus: Corpus) -> None:
        """Embed what was never embedded, and put all vectors into a new collection."""
        self.close()
        vectors = self._texts.of_passages(corpus.contents)
        if len(vectors):
            remove = self._make(f"harness-{uuid4().hex}", vectors.shape[1])
            # Also at the end of a process that nobody told to close.
            self._remove = weakref.finalize(self, remove)
            self._put(vectors)
        self._size = len(vectors)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k nearest documents of each question, best first; equal scores in corpus order."""
        wanted = min(k, self._size)
        if wanted < 1:
            return [Result([], []) for _ in queries]
        vectors = self._texts.of_questions([query.text for query in queries])
        return [_best_first(*found) for found in self._search(vectors, wanted)]

    def report(self) -> dict[str, object]:
        """The model, what the cache saved, and the version of the store's package."""
        return {**self._texts.report(), "store": self._store}

    def close(self) -> None:
        """Remove the collection."""
        self._size = 0
        if self._remove is not None:
            self._remove()
            self._remove = None

    def _make(self, name: str, dimension: int) -> Callable[[], object]:
        """Make an empty collection; returns what removes it (and does not hold `self`)."""
        raise NotImplementedError

    def _put(self, vectors: Vectors) -> None:
        """Store vectors of shape (n, d), under the ids 0 to n - 1."""
        raise NotImplementedError

    def _search(self, vectors: Vectors, k: int) -> list[Found]:
        """The k most similar documents of each question, in any order."""
        raise NotImplementedError


def numbered_rows(vectors: Vectors, number: str = "position") -> pa.Table:
    """Vectors of shape (n, d) as rows, numbered from 0 in the column `number`."""
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    columns = {
        number: pa.array(np.arange(len(vectors), dtype=np.int32)),
        "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    return pa.table(columns)


def _best_first(positions: Positions, scores: Scores) -> Result:
    order = np.lexsort((positions, -scores))
    return Result(positions[order], scores[order])
