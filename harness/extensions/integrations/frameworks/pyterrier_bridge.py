"""PyTerrier transformers as retrievers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from harness.errors import UsageError
from harness.extensions.integrations.frameworks.build import metadata
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Question, Result

_ASKED = {"qid", "query"}
_GIVEN = {*_ASKED, "docno", "text", "title", "score", "rank"}
"""Columns of a query frame and of a candidate frame."""


class PyTerrier:
    """Any transformer of PyTerrier, either ready or built from the documents.

    `build` is `my.py:make`, called as make(documents) with dicts of "docno", "title", "text" and so
    on, as indexers expect, which returns a transformer such as `bm25 % 100 >> reranker`. Or it is a
    transformer: one with its own index must return the dataset's ids; one that needs docno and text
    receives all documents of the haystack as candidates. `options` are passed to the function.
    """

    modules: ClassVar[tuple[str, ...]] = ("pyterrier",)
    batch_size = 1_000_000  # a transformer takes a frame with all queries

    def __init__(self, build: str, options: Mapping[str, object] | None = None) -> None:
        require_packages("retriever 'pyterrier'", *self.modules)
        import pyterrier

        from harness.retrievers.registry import find

        if isinstance(build, str) and ":" not in build:
            raise UsageError(
                f"build={build!r}: pass a function of documents, --param build=my.py:make, or a "
                "transformer"
            )
        found: Any = find(build) if isinstance(build, str) else build
        self._options = dict(options or {})
        if inspect.isclass(found) and issubclass(found, pyterrier.Transformer):
            found, self._options = found(**self._options), {}
        self._make = None if isinstance(found, pyterrier.Transformer) else found
        self.version = str(pyterrier.__version__)
        self.returns_dataset_ids = False
        if self._make is None:
            if self._options:
                raise UsageError("options need a build function, not a transformer")
            self._transformer = found
            self._gives_candidates = _wants_candidates(found)
            self.returns_dataset_ids = not self._gives_candidates
            self.name = type(found).__name__
            # Memory addresses differ between processes.
            self.params = {"transformer": re.sub(r" at 0x[0-9a-f]+", "", repr(found))}
        elif not callable(found):
            raise UsageError(
                f"build={build!r} is a {type(found).__name__}, neither a function of documents "
                "nor a transformer"
            )
        elif unknown := _not_taken(found, self._options):
            raise UsageError(f"build={build!r} has no parameter {unknown!r}")

    def index(self, corpus: Corpus) -> None:
        """Builds from the documents; a ready transformer receives them at search time."""
        import pyterrier

        self._documents = _Documents(corpus)
        if self._make is None or not len(corpus):  # few indexers accept an empty corpus
            return
        made: Any = self._make(self._documents, **self._options)
        if not isinstance(made, pyterrier.Transformer):
            raise TypeError(f"a {type(made).__name__} is not a pyterrier.Transformer")
        self._transformer, self._gives_candidates = made, _wants_candidates(made)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k best per query, by `rank`, or by `score` if there is no rank."""
        import pandas as pd

        if not len(self._documents):
            return [Result() for _ in queries]
        asked: Any = pd.DataFrame(
            {"qid": [f"q{i}" for i in range(len(queries))], "query": [q.text for q in queries]},
            dtype=object,
        )
        if self._gives_candidates:
            asked = asked.merge(self._candidates(), how="cross")
        found = self._transformer.transform(asked)
        answers = dict(iter(found.groupby("qid"))) if len(found) else {}
        return [self._ranked(answers.get(f"q{i}"), k) for i in range(len(queries))]

    def _candidates(self) -> Any:
        import pandas as pd

        rows = [{name: d[name] for name in ("docno", "title", "text")} for d in self._documents]
        return pd.DataFrame(rows).assign(score=0.0, rank=range(len(rows)))

    def _ranked(self, rows: Any, k: int) -> Result:
        if rows is None:
            return Result()
        if "docno" not in rows:
            raise ValueError(
                f"it returned the columns {', '.join(rows.columns)}; a retriever must return docno"
            )
        by_score = "score" in rows
        if "rank" in rows:
            rows = rows.sort_values("rank", kind="stable")
        elif by_score:
            rows = rows.sort_values("score", ascending=False, kind="stable")
        rows = rows.head(k)
        scores = rows["score"].to_numpy(float) if by_score else None
        return Result([str(docno) for docno in rows["docno"]], scores)


class _Documents:
    """Documents as PyTerrier's indexers expect them; can be iterated several times."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus)

    def __iter__(self) -> Iterator[dict[str, object]]:
        for document in self._corpus:
            about = metadata(document, "")
            yield {
                "docno": document.id,
                "title": document.title,
                "text": document.text,
                **{name: value for name, value in about.items() if name in _KNOWN},
            }


_KNOWN = ("timestamp", "speaker", "session", "position")


def _not_taken(function: Any, options: Mapping[str, object]) -> str | None:
    """Returns the first option that the function does not accept."""
    taken = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return None
    return next((name for name in options if name not in taken), None)


def _wants_candidates(transformer: Any) -> bool:
    """Returns whether the transformer requires documents to rank."""
    from pyterrier.inspect import transformer_inputs

    ways = [{*way} for way in transformer_inputs(transformer, strict=False) or []]
    return any(way <= _GIVEN for way in ways) and not any(way <= _ASKED for way in ways)
