"""Any model of mteb."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.errors import RunError, UsageError
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.registry import need


class Mteb:
    """Any model of mteb: an encoder, a cross-encoder, or a search of its own.

    `model`: a name that mteb.get_model knows, such as mteb/baseline-bm25s; or `file.py:NAME`, a
    model, one of sentence-transformers, or a class or function that gives one. Either is given
    `options`. `task`: the task of mteb whose prompts it is given, by name; `language`: that of the
    texts, where no task says it. `encoding`: options of encode, such as {"batch_size": 64}.
    A cross-encoder reads every document with every question.
    """

    modules: ClassVar[tuple[str, ...]] = ("mteb",)
    batch_size = 1_000_000  # mteb asks all questions at once

    def __init__(
        self,
        model: str,
        options: Mapping[str, object] | None = None,
        task: str | None = None,
        language: str = "eng-Latn",
        encoding: Mapping[str, object] | None = None,
    ) -> None:
        need("retriever 'mteb'", *self.modules)
        from importlib.metadata import version

        from datasets import disable_progress_bars
        from mteb.models import EncoderProtocol, ModelMeta, SearchProtocol

        disable_progress_bars()  # mteb writes a table anew for each haystack
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
        """Let mteb's search take in the corpus. Vectors of documents are made here."""
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
            # mteb's search makes them when it is first asked: so it is asked something.
            self.search([Question("a question")], 1)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """mteb's own answer, the highest score first."""
        from datasets import Dataset

        if not self._n:
            return [Result() for _ in queries]
        asked = [f"q{i}" for i in range(len(queries))]
        texts = [query.text for query in queries]
        if getattr(self._search, "task_corpus", self._corpus) is None:
            self._search.task_corpus = self._corpus  # mteb's wrappers let go of it after a search
        found = self._search.search(
            Dataset.from_dict({"id": asked, "text": texts}),
            top_k=min(k, self._n),
            top_ranked=self._candidates(asked),
            **self._about,
        )
        return [_ranked(found.get(id_, {})) for id_ in asked]

    def _candidates(self, asked: Sequence[str]) -> dict[str, list[str]] | None:
        """All documents, for a cross-encoder, which ranks only what it is given."""
        if not hasattr(self._model, "predict"):
            return None
        everything = [*self._corpus["id"]]
        return dict.fromkeys(asked, everything)


class _Encoder:
    """mteb's encoder, which keeps the vectors of documents: mteb makes them at each search."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.mteb_model_meta = model.mteb_model_meta
        self.similarity = model.similarity
        self.forget()

    def forget(self) -> None:
        """Forget the documents."""
        self._vectors: dict[tuple[str, ...], Any] = {}

    def encode(self, inputs: Any, *, prompt_type: Any = None, **about: Any) -> Any:
        """The model's vectors; the same documents are embedded once."""
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
    """The model that a name, a place in a file or an object stands for."""
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
            f"model={given!r} is a {type(found).__qualname__}, which is no EncoderProtocol, "
            "CrossEncoderProtocol or SearchProtocol of mteb: see mteb.models (a subclass of "
            "mteb.models.abs_encoder.AbsEncoder with encode() is one)"
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
    except Exception as error:  # no hub, a package that this model needs, its own code
        said = (str(error).strip() or "no reason given").splitlines()[0]
        raise RunError(
            f"mteb does not give the model {name!r}: {type(error).__name__}: {said}{_near(name)}"
        ) from error


def _near(name: str) -> str:
    """What mteb says of a name that is none of its own, and so is looked for at the hub."""
    import mteb

    try:
        mteb.get_model_meta(name)
    except KeyError as error:
        return f"; {error.args[0]}"
    return ""


def _wrapper(model: Any) -> Any:
    """mteb's own class around a model of sentence-transformers; None for what is none."""
    if not type(model).__module__.startswith("sentence_transformers"):
        return None
    from mteb import models

    kinds = {
        "SparseEncoder": models.SparseEncoderWrapper,
        "MultiVectorEncoder": models.MultiVectorWrapper,
        "SentenceTransformer": models.SentenceTransformerEncoderWrapper,
        "CrossEncoder": models.CrossEncoderWrapper,
    }
    # The nearest of its classes: one kind may be made from another.
    bases = (base.__name__ for base in type(model).__mro__)
    return next((kinds[base] for base in bases if base in kinds), None)


def _search_of(model: Any) -> Any:
    """What mteb would search with for this model, as in its retrieval tasks."""
    from mteb.models import SearchCrossEncoderWrapper, SearchEncoderWrapper

    if isinstance(model, _Encoder):
        return SearchEncoderWrapper(model)
    return SearchCrossEncoderWrapper(model) if hasattr(model, "predict") else model


def _task(name: str | None, language: str) -> Any:
    """What mteb tells a model of the task; of ours, that it is retrieval of texts."""
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
