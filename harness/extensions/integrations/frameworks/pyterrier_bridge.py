"""Any transformer of PyTerrier."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from harness.errors import UsageError
from harness.extensions.integrations.frameworks.build import metadata
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.registry import need

_ASKED = {"qid", "query"}
_GIVEN = {*_ASKED, "docno", "text", "title", "score", "rank"}
"""Columns of a frame of questions, and of one of candidates."""


class PyTerrier:
    """Any transformer of PyTerrier, made from the documents by a function, or as it is.

    `build`: `my.py:make`, called as make(documents) with {"docno", "title", "text", ...} of each,
    which indexers take, and giving a transformer such as `bm25 % 100 >> reranker`. Or a
    transformer: one with an index of its own answers with the dataset's ids; one that wants docno
    and text is given all documents of the haystack as candidates. `options` go to the function.
    """

    modules: ClassVar[tuple[str, ...]] = ("pyterrier",)
    batch_size = 1_000_000  # a transformer takes a frame of all questions

    def __init__(self, build: str, options: Mapping[str, object] | None = None) -> None:
        need("retriever 'pyterrier'", *self.modules)
        import pyterrier

        from harness.retrievers.registry import find

        if isinstance(build, str) and ":" not in build:
            raise UsageError(
                f"build={build!r}: name a function of documents, --param build=my.py:make, or a "
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
                raise UsageError("options are for a function that builds, not for a transformer")
            self._transformer = found
            self._gives_candidates = _wants_candidates(found)
            self.returns_dataset_ids = not self._gives_candidates
            self.name = type(found).__name__
            # Where an object lies in memory is another place in each process.
            self.params = {"transformer": re.sub(r" at 0x[0-9a-f]+", "", repr(found))}
        elif not callable(found):
            raise UsageError(
                f"build={build!r} is a {type(found).__name__}, not a function of documents and "
                "not a transformer"
            )
        elif unknown := _not_taken(found, self._options):
            raise UsageError(f"build={build!r} has no parameter {unknown!r}")

    def index(self, corpus: Corpus) -> None:
        """Build from the documents; a transformer that is there already is shown them later."""
        import pyterrier

        self._documents = _Documents(corpus)
        if self._make is None or not len(corpus):  # of nothing few indexers can make an index
            return
        made: Any = self._make(self._documents, **self._options)
        if not isinstance(made, pyterrier.Transformer):
            raise TypeError(f"a {type(made).__name__} is no pyterrier.Transformer")
        self._transformer, self._gives_candidates = made, _wants_candidates(made)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k best of each question, by `rank`, or by `score` where there is none."""
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
                f"it answered with the columns {', '.join(rows.columns)}; a retriever gives docno"
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
    """The documents as PyTerrier's indexers take them; they can be gone through several times."""

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
    """The first option that a function has no parameter for."""
    taken = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return None
    return next((name for name in options if name not in taken), None)


def _wants_candidates(transformer: Any) -> bool:
    """Whether it says that it cannot do without documents to rank."""
    from pyterrier.inspect import transformer_inputs

    ways = [{*way} for way in transformer_inputs(transformer, strict=False) or []]
    return any(way <= _GIVEN for way in ways) and not any(way <= _ASKED for way in ways)
