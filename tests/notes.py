"""A corpus of a few notes, as a retriever is shown one; and a retriever."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Documents
from harness.retrievers.contract import Corpus, Question, Result, Retriever

_TEXTS = ("id", "text", "title", "session", "speaker")


def corpus(
    texts: Sequence[str],
    said: Sequence[int | None] | None = None,
    titles: Sequence[str] | None = None,
) -> Corpus:
    """Notes whose handles run backwards, with the seconds at which they were said."""
    n = len(texts)
    columns = {name: pa.array([None] * n, pa.string()) for name in _TEXTS}
    columns |= {"id": pa.array([f"n{i}" for i in range(n)]), "text": pa.array(texts, pa.string())}
    columns["title"] = pa.array(titles or [None] * n, pa.string())
    columns |= {name: pa.array([None] * n, pa.int64()) for name in ("timestamp", "position")}
    order = ("id", "text", "title", "timestamp", "session", "speaker", "position")
    stamps = np.array([np.nan if t is None else t for t in said or [None] * n], float)
    return Corpus(
        Documents(pa.table({name: columns[name] for name in order})),
        np.arange(n, dtype=np.int32),
        np.arange(n)[::-1].copy(),
        stamps,
        None,
    )


def ask(retriever: Retriever, text: str, k: int = 10, timestamp: int | None = None) -> Result:
    """The retriever's answer to one question."""
    (found,) = retriever.search([Question(text, timestamp)], k)
    assert isinstance(found, Result)
    return found


def scores(retriever: Retriever, text: str, n: int) -> list[float]:
    """The score of each of n notes; 0 for those that did not come back."""
    found = ask(retriever, text, n)
    assert found.scores is not None
    given = dict(zip(map(int, found.ids), map(float, found.scores), strict=True))
    return [given.get(i, 0.0) for i in range(n)]


class SharedWords:
    """What the programs in examples/ do, as a class."""

    def index(self, corpus: Corpus) -> None:
        self.words = [set(document.content.lower().split()) for document in corpus]

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        found = []
        for query in queries:
            asked = set(query.text.lower().split())
            scores = [len(asked & words) for words in self.words]
            best = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
            found.append(Result(best, [scores[i] for i in best]))
        return found
