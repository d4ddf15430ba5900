"""Finds a retriever by what people type: a built-in name, an entry point, a plug-in, or a path."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from harness import errors
from harness.errors import HarnessError, PluginError, RunError, UsageError, near
from harness.io import plugins
from harness.io.files import not_finite
from harness.io.masking import filled_in, refuse_in
from harness.io.plugins import (
    FAILURES,
    load_file,
    module_name,
    public_names,
    raised_at,
    register_retriever,
    registered,
    registered_in,
)
from harness.retrievers.calls import can_serve
from harness.retrievers.contract import Retriever
from harness.retrievers.outputs import check_ranked_by

EXTRAS = {
    "argcomplete": "completion",
    "beir": "beir",
    "chromadb": "chroma",
    "duckdb": "duckdb",
    "faiss": "faiss",
    "graphiti_core": "graphiti",
    "httpx": "graphiti",
    "lancedb": "lancedb",
    "langchain_core": "langchain",
    "llama_index": "llamaindex",
    "mcp": "mcp",
    "mem0": "mem0",
    "mteb": "mteb",
    "nltk": "answers",
    "onnxruntime": "onnx",
    "openai": "answers",
    "pyterrier": "pyterrier",
    "qdrant_client": "qdrant",
    "ray": "ray",
    "safetensors": "minilm",
    "sentence_transformers": "dense",
    "tantivy": "tantivy",
    "threadpoolctl": "minilm",
    "tokenizers": "minilm",
    "torch": "dense",
    "transformers": "dense",
    "urllib3": "http",
}
"""Modules and the extra that brings each."""


def install(module: str) -> str:
    """The command that brings a module: one of our extras, else the package of that name."""
    extra = EXTRAS.get(module)
    return errors.install(extra) if extra else f"pip install {module}"


def there(module: str) -> bool:
    """Whether a module is installed; it is not imported, though a package it stands in is."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def need(what: str, *modules: str) -> None:
    """Raises UsageError, with the command that helps, where a module is missing.

    Nothing is imported: this is for constructors, whose heavy imports come later.
    """
    for module in modules:
        if not there(module):
            raise UsageError(f"{what} needs the package {module!r}: {install(module)}")


T = TypeVar("T")


def with_options(options: type) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a class whose `__init__` ends with `**options` of a dataclass.

    Its signature, by which `--param` is checked and listed, then names the fields.
    """

    def decorate(kind: type[T]) -> type[T]:
        init: Any = kind.__init__  # not the class: a subclass may have a constructor of its own
        own = [*inspect.signature(init).parameters.values()][:-1]
        init.__signature__ = inspect.Signature(
            [*own, *inspect.signature(options).parameters.values()]
        )
        return kind

    return decorate


@dataclass(frozen=True)
class Kind:
    """One kind of them: the retriever (an entry point) that takes it, and by which parameter."""

    retriever: str
    parameter: str
    is_one: Callable[[object], bool]


def wrapper_for(thing: object) -> Callable[..., Retriever] | None:
    """Returns what builds a retriever from a third-party object; None for other objects, and where
    no installed package takes such."""
    kind = kind_of(thing)
    entry = plugins.find("harness.retrievers", kind.retriever) if kind is not None else None
    if kind is None or entry is None:
        return None
    return partial(plugins.load(entry, "retriever"), **{kind.parameter: thing})


def kind_of(thing: object) -> Kind | None:
    """Of which kind an object is; None for a class, and for all that is none of theirs."""
    if isinstance(thing, type):
        return None
    return next((kind for kind in KINDS if kind.is_one(thing)), None)


def is_of_mteb(thing: object) -> bool:
    """Whether this is a model of mteb (encoder, cross-encoder or search) or its description."""
    # Not hasattr: a proxy has whatever it is asked for.
    return _has(thing, "mteb_model_meta") or (
        type(thing).__module__.startswith("mteb.") and _has(thing, "load_model")
    )


def is_of_beir(thing: object) -> bool:
    """Whether this is a search of BEIR, called as search(corpus, queries, top_k, ...)."""
    if not _has(thing, "search") or not callable(search := getattr(thing, "search", None)):
        return False
    try:
        taken = [*inspect.signature(search).parameters]
    except (TypeError, ValueError):  # built in, without a signature
        return False
    return taken[:3] == ["corpus", "queries", "top_k"]


def is_of_pyterrier(thing: object) -> bool:
    """Whether this is a transformer of PyTerrier."""
    base = getattr(sys.modules.get("pyterrier"), "Transformer", None)
    return base is not None and isinstance(thing, base)


def _has(thing: object, name: str) -> bool:
    return inspect.getattr_static(thing, name, None) is not None


KINDS = (
    Kind("pyterrier", "build", is_of_pyterrier),
    Kind("mteb", "model", is_of_mteb),
    Kind("beir", "search", is_of_beir),
)

__all__ = [
    "BUILT_IN",
    "FunctionRetriever",
    "RetrieverSpec",
    "factory_of",
    "files_of",
    "find",
    "named",
    "names",
    "parameters",
    "register_retriever",
    "sibling_file",
]

ENTRY_POINTS = "harness.retrievers"
"""The group by which packages add retrievers, our own extensions among them (pyproject.toml)."""

BUILT_IN = {
    "bm25": "harness.retrievers.bm25:BM25",
    "bm25-okapi": "harness.retrievers.tfidf:Okapi",
    "tfidf": "harness.retrievers.tfidf:TfIdf",
    "hybrid": "harness.retrievers.hybrid:Hybrid",
    "recency-weighted": "harness.retrievers.hybrid:RecencyWeighted",
    "http": "harness.retrievers.http:Http",
    "command": "harness.retrievers.command:Command",
    "recency": "harness.retrievers.baselines:Recency",
    "random": "harness.retrievers.baselines:Random",
    "oracle": "harness.retrievers.baselines:Oracle",
}

_GIVEN = ("text", "k", "corpus")
"""What the harness itself gives to a plain function; the rest are its parameters."""


@dataclass(frozen=True)
class RetrieverSpec:
    """Everything needed to build a retriever again, here or in another process."""

    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises UsageError for unknown names and parameters, for a parameter that is no finite
        number or a secret (see masking.refuse_in), and for code that fails to import."""
        refuse_in(f"retriever {self.name!r}: the parameter", self.params)
        if odd := not_finite(self.params):
            raise UsageError(f"retriever {self.name!r}: {odd}, with which nothing can be computed")
        self._factory()

    def build(self, seed: int = 0) -> Retriever:
        """A fresh retriever. Raises what `check` raises, and RunError when its constructor fails.

        A parameter `env:NAME` is given what stands in that variable of the environment. `seed` is
        passed on where the constructor takes one and the parameters do not say.
        """
        factory = self._factory()
        params = filled_in(dict(self.params), f"retriever {self.name!r}")
        if inspect.isfunction(factory) and _retrieves(factory):
            return FunctionRetriever(factory, params)
        if "seed" in inspect.signature(factory).parameters and "seed" not in params:
            params["seed"] = seed
        lacking = [
            p.name
            for p in parameters(factory)
            if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in params
        ]
        if lacking:
            raise UsageError(f"retriever {self.name!r} needs --param {lacking[0]}=...")
        try:
            built = factory(**params)
            serves = wrapper_for(built)
            built = serves() if serves is not None else built
        except (TypeError, ValueError) as error:
            said = str(error) if is_ours(self.name) else raised_at(error)
            raise UsageError(f"retriever {self.name!r}: {said}") from error
        except HarnessError:
            raise
        except FAILURES as error:
            raise RunError(f"retriever {self.name!r} was not built: {raised_at(error)}") from error
        if not can_serve(built):
            raise UsageError(
                f"retriever {self.name!r} lacks index(corpus) or search(queries, k), or, in place "
                "of index, reset() and add(documents); see harness/retrievers/contract.py"
            )
        check_ranked_by(built)
        return built

    def _factory(self) -> Callable[..., Any]:
        for plugin in self.plugins:
            load_file(Path(plugin))
        factory = factory_of(self.name)
        if not callable(factory):
            kind = type(factory).__name__
            raise UsageError(f"retriever {self.name!r} is a {kind}, not a class or a function")
        accepted = parameters(factory)
        free = any(p.kind is p.VAR_KEYWORD for p in accepted)
        known = [p.name for p in accepted]
        unknown = [key for key in self.params if key not in known]
        if unknown and not free:
            raise UsageError(
                f"retriever {self.name!r} has no parameter {unknown[0]!r}"
                f"{near(unknown[0], known or ['none'])}"
            )
        return factory


def factory_of(name: str) -> Callable[..., Any]:
    """What builds the retriever called `name`. Raises as `find` and `named` do.

    For an object that was made for another harness it is the class by which it serves here.
    """
    found = find(named(name))
    return wrapper_for(found) or found


def _retrieves(function: Callable[..., Any]) -> bool:
    """Whether it answers a question; one of which nothing needs to be given builds a retriever."""
    taken = inspect.signature(function).parameters.values()
    positional = (p for p in taken if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD))
    return any(p.default is p.empty for p in positional)


def parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    """What `--param` may set."""
    given: Collection[str] = _GIVEN if inspect.isfunction(factory) else ()
    if isinstance(factory, partial):  # of an object of another harness, which stands in it
        given = factory.keywords
    return [p for name, p in inspect.signature(factory).parameters.items() if name not in given]


def named(name: str) -> str:
    """`mine.py:Class` for a `mine` that is nothing else, where `mine.py` stands in this folder.

    Taken is what the file registers under the name (which then is a name like any other), else its
    only class with `index` and `search`, or its only function `retrieve`. Anything else is given
    back as it is. Raises UsageError for a file that has none of these, or several.
    """
    file = sibling_file(name)
    if file is None:
        return name
    module = load_file(file)
    if name in registered:
        return name
    own = {public: getattr(module, public) for public in public_names(module)}
    taken = [
        public
        for public, thing in own.items()
        if (public == "retrieve" and inspect.isfunction(thing))
        or (inspect.isclass(thing) and not inspect.isabstract(thing) and can_serve(thing))
    ]
    if len(taken) == 1:
        return f"{file}:{taken[0]}"
    if taken:
        choices = ", ".join(f"{file}:{one}" for one in taken)
        raise UsageError(f"retriever {name!r}: {file} holds several; name one of {choices}")
    raise UsageError(
        f"retriever {name!r}: {file} has no class with index(corpus) and search(queries, k), and "
        "no function retrieve(text, k)"
    )


def sibling_file(name: str) -> Path | None:
    """`mine.py` of this folder for a `mine` that is no built-in, installed or registered name."""
    file = Path(f"{name}.py")
    known = name in BUILT_IN or name in registered or len(file.parts) > 1 or ":" in name
    if known or not file.is_file() or plugins.find(ENTRY_POINTS, name):
        return None
    return file


def files_of(name: str) -> list[Path]:
    """The file of a user's own that a plain name was taken from in this process; none else."""
    if name in registered_in:
        return [registered_in[name]]
    file = sibling_file(name)
    return [file] if file is not None and module_name(file) in sys.modules else []


def find(name: str) -> Callable[..., Any]:
    """The class or function called `name`.

    In this order: built-in, entry point, registered by a plug-in, `file.py:Class`,
    `package.module:Class`. Raises UsageError with the near names.
    """
    if name in BUILT_IN:
        return _attribute(BUILT_IN[name])
    if (entry := plugins.find(ENTRY_POINTS, name)) is not None:
        loaded: Callable[..., Any] = plugins.load(entry, "retriever")
        return loaded
    if name in registered:
        return registered[name]
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py"):
        module = load_file(Path(place))
        if not hasattr(module, attribute):
            public = public_names(module)
            raise UsageError(f"{place} has no {attribute!r}{near(attribute, public)}")
        found: Callable[..., Any] = getattr(module, attribute)
        return found
    if place:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m harness` has it, `harness` has not
        return _attribute(name)
    if name.endswith(".py"):
        raise UsageError(f"retriever {name!r}: name the class or function in it too, {name}:NAME")
    raise UsageError(f"unknown retriever {name!r}{_suggestion(name)}")


def _suggestion(name: str) -> str:
    """Names the retriever that was probably meant, or says how to run another system."""
    if "," in name:
        several = " ".join(f"--retriever {one.strip()}" for one in name.split(","))
        return f"; several are given as {several}"
    if "did you mean" in (close := near(name, names())):
        return close
    file = f"{name}.py" if name.isidentifier() else "FILE.py"
    return (
        f"; `harness retrievers` lists them. For another system write a class with index(corpus) "
        f"and search(queries, k) in a file, and name it as {file}:CLASS"
    )


def is_ours(name: str) -> bool:
    """Return whether a name is a retriever of this distribution, in the core or an extension."""
    entry = None if name in BUILT_IN else plugins.find(ENTRY_POINTS, name)
    return name in BUILT_IN or (entry is not None and plugins.is_ours(entry))


def plugin_entry_point(name: str) -> EntryPoint | None:
    """Return the entry point by which another package adds a retriever; None without one."""
    entry = None if name in BUILT_IN else plugins.find(ENTRY_POINTS, name)
    return None if entry is None or plugins.is_ours(entry) else entry


def names() -> list[str]:
    """Return the names of all retrievers that need no path, sorted."""
    return sorted({*BUILT_IN, *plugins.names(ENTRY_POINTS), *registered})


def _attribute(path: str) -> Callable[..., Any]:
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(f"retriever {path!r}: {module_name!r} is no name of a module")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise UsageError(f"retriever {path!r}: there is no module {error.name!r}") from None
        raise UsageError(
            f"retriever {path!r} needs the package {error.name!r}: {install(error.name or '')}"
        ) from None
    except FAILURES as error:
        raise PluginError(f"retriever {path!r}: {raised_at(error)}") from error
    if not hasattr(module, attribute):
        public = public_names(module)
        raise UsageError(f"module {module_name!r} has no {attribute!r}{near(attribute, public)}")
    found: Callable[..., Any] = getattr(module, attribute)
    return found


class FunctionRetriever:
    """A plain function as a retriever.

    `retrieve(text, k) -> ids` answers with the dataset's own ids: whoever wrote it has indexed the
    documents in some other way. `retrieve(text, k, corpus) -> ids` is given the corpus and answers
    with its handles or positions. Further parameters come from `--param`.
    """

    def __init__(self, function: Callable[..., Any], params: Mapping[str, object]) -> None:
        accepted = inspect.signature(function).parameters
        self.function = function
        self._params = dict(params)
        self._wants_corpus = "corpus" in accepted
        self.returns_dataset_ids = not self._wants_corpus

    def index(self, corpus: Any) -> None:
        """Keep the corpus for functions that ask for it."""
        self._corpus = corpus

    def search(self, queries: Any, k: int) -> list[Any]:
        """Call the function once a question."""
        given = {**self._params, "corpus": self._corpus} if self._wants_corpus else self._params
        return [self.function(query.text, k, **given) for query in queries]
