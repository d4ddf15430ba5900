"""BEIR models and search classes as a retriever."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

from harness.errors import UsageError
from harness.extensions.dense.models import packaged
from harness.io.packages import is_installed, require_packages
from harness.retrievers.contract import Corpus, Question, Result

EXACT = "beir.retrieval.search.dense:DenseRetrievalExactSearch"


class Beir:
    """Any BEIR model and search class, through the installed beir package.

    `model` is a class such as beir.retrieval.models.SentenceBERT, or `file.py:Class`, with
    encode_queries and encode_corpus; it receives `path` and `options`. `search` is exact, or a
    class such as beir.retrieval.search.dense.HNSWFaissSearch, which receives `search_options`; or
    `file.py:NAME`, a search with its own model or a function that returns one. `score_function`:
    cos_sim or dot.
    """

    modules: ClassVar[tuple[str, ...]] = ("beir",)
    batch_size = 1_000_000  # BEIR searches process all queries at once

    def __init__(
        self,
        model: str = "beir.retrieval.models.SentenceBERT",
        path: str = "sentence-transformers/all-MiniLM-L6-v2",
        search: str = "exact",
        score_function: str = "cos_sim",
        options: Mapping[str, object] | None = None,
        search_options: Mapping[str, object] | None = None,
    ) -> None:
        require_packages("retriever 'beir'", *self.modules)
        if score_function not in ("cos_sim", "dot"):
            raise ValueError(f"score_function must be cos_sim or dot, not {score_function!r}")
        from importlib.metadata import version

        self.version = version("beir")
        self._score_function = score_function
        self._model: _Model | None = None
        self._search: Any = search
        if isinstance(search, str):
            self._search = _named(EXACT if search == "exact" else search, "search")
        self._search_options = dict(search_options or {})
        if inspect.isclass(self._search):
            self._model = _Model(_built(model, path, options))
        elif inspect.isfunction(self._search):
            self._search = self._search(**self._search_options)
        elif search_options:
            raise UsageError("search_options need a class or a function, not a search object")
        else:
            self.name = type(self._search).__name__
            self.params = {"score_function": score_function}
        if not hasattr(self._search, "search"):
            raise UsageError(f"search={search!r} is a {type(self._search).__name__}, not a search")

    def index(self, corpus: Corpus) -> None:
        """Stores the corpus; BEIR embeds it at the first query."""
        if self._model is not None:
            self._model.forget()
        self._position = {handle: i for i, handle in enumerate(corpus.handles)}
        self._corpus = {d.id: {"title": d.title, "text": d.text} for d in corpus}
        self._searcher = self._new_search()

    def _new_search(self) -> Any:
        if self._model is not None:
            return _complete(self._search)(self._model, **self._search_options)
        return copy(self._search)  # some build their index once: use a copy without one

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns BEIR's results, highest score first."""
        if not self._corpus:
            return [Result() for _ in queries]
        asked = {f"q{i}": query.text for i, query in enumerate(queries)}
        # The exact search reads the scores of a second query, so it fails for a single one.
        padded = asked if len(asked) > 1 else {**asked, "unasked": queries[0].text}
        # faiss pads with -1, which BEIR reads as the last document.
        depth = min(k, len(self._corpus))
        found = self._searcher.search(self._corpus, padded, depth, self._score_function)
        return [self._ranked(found[id_]) for id_ in asked]

    def _ranked(self, scores: Mapping[str, float]) -> Result:
        best = sorted(scores.items(), key=lambda item: -item[1])
        return Result([self._position[id_] for id_, _ in best], [score for _, score in best])


class _Model:
    """BEIR model without progress bars that caches the vectors of the corpus.

    BEIR's exact search embeds the corpus at every call.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.forget()

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # accessed before it exists when unpickled
            raise AttributeError(name)
        return getattr(self._model, name)

    def forget(self) -> None:
        """Clears the cached corpus."""
        self._embedded: dict[tuple[int, ...], Any] = {}

    def encode_queries(self, queries: Any, *args: Any, **options: Any) -> Any:
        """Returns the model's vectors of queries."""
        return self._model.encode_queries(queries, *args, **_quiet(options))

    def encode_corpus(self, corpus: Any, *args: Any, **options: Any) -> Any:
        """Returns the model's vectors of documents; equal batches are embedded once."""
        key = tuple(map(id, corpus))
        if key not in self._embedded:
            self._embedded[key] = self._model.encode_corpus(corpus, *args, **_quiet(options))
        return self._embedded[key]


def _quiet(options: dict[str, object]) -> dict[str, object]:
    return {**options, "show_progress_bar": False} if "show_progress_bar" in options else options


def _complete(search: Any) -> Any:
    """Makes `search` instantiable: BEIR 2.2's faiss searches lack abstract methods of their base.

    These handle files of vectors and are not called here.
    """
    missing: frozenset[str] = getattr(search, "__abstractmethods__", frozenset()) - {"search"}
    return type(search.__name__, (search,), dict.fromkeys(missing)) if missing else search


def _built(model: str, path: str, options: Mapping[str, object] | None) -> Any:
    model_class = _named(model, "encode_corpus")
    if is_installed("transformers"):
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # from loading the weights
    return model_class(str(packaged(path) or path), **(options or {}))


def _named(name: str, method: str) -> Any:
    """Imports `package.module.Class`, `package.module:NAME` or `file.py:NAME`."""
    from harness.retrievers.registry import find

    place, _, attribute = name.rpartition(".")
    found = find(name if ":" in name or not place else f"{place}:{attribute}")
    if not hasattr(found, method) and not inspect.isfunction(found):
        raise UsageError(f"{name!r} has no {method}(), which BEIR requires")
    return found
