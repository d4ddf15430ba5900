"""mteb models as retrievers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.errors import RunError, UsageError
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Question, Result


class Mteb:
    """Any model of mteb: an encoder, a cross-encoder, or a search.

    `model` is a name for mteb.get_model, such as mteb/baseline-bm25s; or `file.py:NAME`, a model of
    mteb or sentence-transformers, or a class or function that returns one. Both receive `options`.
    `task` is the name of the mteb task that selects prompts; `language` is that of the texts, if
    the task has none. `encoding` holds options of encode, such as {"batch_size": 64}. A
    cross-encoder scores every document for every query.
    """

    modules: ClassVar[tuple[str, ...]] = ("mteb",)
    batch_size = 1_000_000  # mteb processes all queries at once

    def __init__(
        self,
        model: str,
        options: Mapping[str, object] | None = None,
        task: str | None = None,
        language: str = "eng-Latn",
        encoding: Mapping[str, object] | None = None,
    ) -> None:
        require_packages("retriever 'mteb'", *self.modules)
        from importlib.metadata import version

        from datasets import disable_progress_bars
        from mteb.models import EncoderProtocol, ModelMeta, SearchProtocol

        disable_progress_bars()  # mteb rebuilds a table for each haystack
        found = _model(model, dict(options or {}))
        meta = found.mteb_model_meta
        unknown = ModelMeta.create_empty()
        self.name = type(found).__name__ if meta.name in (None, unknown.name) else str(meta.name)
        self.revision = None if meta.revision in (None, unknown.revision) else str(meta.revision)
        self.version = version("mteb")
        self.params = {"model": self.name, "task": task, "language": language}
        self._encodes = isinstance(found, EncoderProtocol) and not isinstance(found, SearchProtocol)
        self._model = _Encoder(found) if self._encodes else found
        self._encoding = {"batch_size": 32, "show_progress_bar": False, **(encoding or {})}
        self._about = {
            "task_metadata": _task(task, language),
            "hf_split": "test",
            "hf_subset": "default",
            "encode_kwargs": self._encoding,
            "num_proc": None,
        }

    def index(self, corpus: Corpus) -> None:
        """Indexes the corpus with mteb's search, which embeds the documents."""
        from datasets import Dataset

        self._n = len(corpus)
        if not self._n:
            return
        rows = [{"id": d.id, "title": d.title, "text": d.text} for d in corpus]
        self._corpus = Dataset.from_list(rows)
        self._search = _search_of(self._model)
        self._search.index(self._corpus, **self._about)
        if self._encodes:
            self._model.forget()
            # mteb's search embeds documents at the first query, so send one.
            self.search([Question("a question")], 1)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns mteb's results, highest score first."""
        from datasets import Dataset

        if not self._n:
            return [Result() for _ in queries]
        asked = [f"q{i}" for i in range(len(queries))]
        texts = [query.text for query in queries]
        if getattr(self._search, "task_corpus", self._corpus) is None:
            self._search.task_corpus = self._corpus  # mteb's wrappers drop it after a search
        found = self._search.search(
            Dataset.from_dict({"id": asked, "text": texts}),
            top_k=min(k, self._n),
            top_ranked=self._candidates(asked),
            **self._about,
        )
        return [_ranked(found.get(id_, {})) for id_ in asked]

    def _candidates(self, asked: Sequence[str]) -> dict[str, list[str]] | None:
        """Returns all documents as candidates, which a cross-encoder needs."""
        if not hasattr(self._model, "predict"):
            return None
        everything = [*self._corpus["id"]]
        return dict.fromkeys(asked, everything)


class _Encoder:
    """mteb encoder that caches document vectors, which mteb computes at each search."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.mteb_model_meta = model.mteb_model_meta
        self.similarity = model.similarity
        self.forget()

    def forget(self) -> None:
        """Clears the cached documents."""
        self._vectors: dict[tuple[str, ...], Any] = {}

    def encode(self, inputs: Any, *, prompt_type: Any = None, **about: Any) -> Any:
        """Returns the model's vectors; equal batches of documents are embedded once."""
        from mteb.types import PromptType

        if prompt_type != PromptType.document:
            return self._model.encode(inputs, prompt_type=prompt_type, **about)
        key = tuple(inputs.dataset["id"])
        if key not in self._vectors:
            self._vectors[key] = self._model.encode(inputs, prompt_type=prompt_type, **about)
        return self._vectors[key]


def _ranked(scores: Mapping[str, float]) -> Result:
    best = sorted(scores.items(), key=lambda item: -item[1])
    return Result([handle for handle, _ in best], [score for _, score in best])


def _model(given: Any, options: dict[str, object]) -> Any:
    """Loads the model from a name, a location in a file, or an object."""
    import mteb
    from mteb.models import ModelMeta

    found = _named(given, options) if isinstance(given, str) else given
    if isinstance(found, ModelMeta):
        found = found.load_model(**options)
    wrapper = _wrapper(found)
    found = found if wrapper is None else wrapper(found)
    protocols = (mteb.EncoderProtocol, mteb.CrossEncoderProtocol, mteb.SearchProtocol)
    if not isinstance(found, protocols):
        raise UsageError(
            f"model={given!r} is a {type(found).__qualname__}, not an EncoderProtocol, "
            "CrossEncoderProtocol or SearchProtocol of mteb: see mteb.models (for example "
            "subclass mteb.models.abs_encoder.AbsEncoder with encode())"
        )
    return found


def _named(name: str, options: dict[str, object]) -> Any:
    from harness.retrievers.registry import find

    if ":" in name:
        found = find(name)
        return found(**options) if inspect.isclass(found) or inspect.isfunction(found) else found
    import mteb

    try:
        return mteb.get_model(name, **options)
    except Exception as error:  # no network, a missing package, errors in the model's code
        said = (str(error).strip() or "no reason given").splitlines()[0]
        raise RunError(
            f"mteb cannot load the model {name!r}: {type(error).__name__}: {said}{_near(name)}"
        ) from error


def _near(name: str) -> str:
    """Returns mteb's suggestion for an unknown name, which it looks up on the hub."""
    import mteb

    try:
        mteb.get_model_meta(name)
    except KeyError as error:
        return f"; {error.args[0]}"
    return ""


def _wrapper(model: Any) -> Any:
    """Returns mteb's wrapper class for a sentence-transformers model, or None."""
    if not type(model).__module__.startswith("sentence_transformers"):
        return None
    from mteb import models

    kinds = {
        "SparseEncoder": models.SparseEncoderWrapper,
        "MultiVectorEncoder": models.MultiVectorWrapper,
        "SentenceTransformer": models.SentenceTransformerEncoderWrapper,
        "CrossEncoder": models.CrossEncoderWrapper,
    }
    # The most specific class, since these classes inherit from each other.
    bases = (base.__name__ for base in type(model).__mro__)
    return next((kinds[base] for base in bases if base in kinds), None)


def _search_of(model: Any) -> Any:
    """Returns the search that mteb uses for this model in retrieval tasks."""
    from mteb.models import SearchCrossEncoderWrapper, SearchEncoderWrapper

    if isinstance(model, _Encoder):
        return SearchEncoderWrapper(model)
    return SearchCrossEncoderWrapper(model) if hasattr(model, "predict") else model


def _task(name: str | None, language: str) -> Any:
    """Returns the task metadata for the model; by default, a generic text retrieval task."""
    import mteb
    from mteb.abstasks.task_metadata import TaskMetadata

    if name is not None:
        try:
            return mteb.get_task(name).metadata
        except KeyError as error:
            raise UsageError(f"mteb: {error.args[0]}") from None
    return TaskMetadata(
        name="Documents and questions",
        description="Find the documents that answer a question.",
        dataset={"path": "none", "revision": "none"},
        type="Retrieval",
        category="t2t",
        eval_langs=[language],
        main_score="ndcg_at_10",
    )
