"""Finds a retriever by what people type: a built-in name, an entry point, a plug-in, or a path."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, RunError, UsageError, near
from harness.retrievers.contract import Retriever
from harness.retrievers.extras import install

ENTRY_POINTS = "harness.retrievers"
PLUGIN_MODULE = "harness_plugin_"
"""How the names of modules begin that were loaded from a file."""

BUILT_IN = {
    "bm25": "harness.retrievers.bm25:BM25",
    "bm25-okapi": "harness.retrievers.okapi:Okapi",
    "tfidf": "harness.retrievers.tfidf:TfIdf",
    "minilm": "harness.retrievers.minilm:MiniLM",
    "dense": "harness.retrievers.dense:Dense",
    "qdrant": "harness.retrievers.stores.qdrant:Qdrant",
    "chroma": "harness.retrievers.stores.chroma:Chroma",
    "lancedb": "harness.retrievers.stores.lance:Lance",
    "duckdb": "harness.retrievers.stores.duck:Duck",
    "tantivy": "harness.retrievers.stores.tantivy_engine:Tantivy",
    "graph": "harness.retrievers.graph.retriever:Graph",
    "hybrid": "harness.retrievers.hybrid:Hybrid",
    "rerank": "harness.retrievers.rerank:Rerank",
    "recency-weighted": "harness.retrievers.recency_weighted:RecencyWeighted",
    "langchain": "harness.retrievers.frameworks.langchain_bridge:LangChain",
    "llamaindex": "harness.retrievers.frameworks.llamaindex_bridge:LlamaIndex",
    "mem0": "harness.retrievers.memories.mem0_memory:Mem0",
    "graphiti": "harness.retrievers.memories.graphiti_memory:Graphiti",
    "beir": "harness.retrievers.beir_models:Beir",
    "http": "harness.retrievers.http:Http",
    "command": "harness.retrievers.command:Command",
    "recency": "harness.retrievers.baselines:Recency",
    "random": "harness.retrievers.baselines:Random",
    "oracle": "harness.retrievers.baselines:Oracle",
}

_GIVEN = ("text", "k", "corpus")
"""What the harness itself gives to a plain function; the rest are its parameters."""

_registered: dict[str, Callable[..., Any]] = {}


def register_retriever(name: str) -> Callable[[Any], Any]:
    """Decorator that makes a class or a plain function known under `name` in this process."""

    def register(factory: Any) -> Any:
        _registered[name] = factory
        return factory

    return register


@dataclass(frozen=True)
class RetrieverSpec:
    """Everything needed to build a retriever again, here or in another process."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises UsageError for unknown names and parameters and for code that fails to import."""
        self._factory()

    def build(self, seed: int = 0) -> Retriever:
        """A fresh retriever. Raises what `check` raises, and RunError when its constructor fails.

        `seed` is passed on where the constructor takes one and the parameters do not say.
        """
        factory = self._factory()
        params = dict(self.params)
        if inspect.isfunction(factory):
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
        except (TypeError, ValueError) as error:
            said = str(error) if self.name in BUILT_IN else _said(error)
            raise UsageError(f"retriever {self.name!r}: {said}") from error
        except HarnessError:
            raise
        except Exception as error:
            raise RunError(f"retriever {self.name!r} was not built: {_said(error)}") from error
        if not (
            callable(getattr(built, "index", None)) and callable(getattr(built, "search", None))
        ):
            raise UsageError(
                f"retriever {self.name!r} lacks index(corpus) or search(queries, k); "
                "see harness/retrievers/contract.py"
            )
        return built  # type: ignore[no-any-return]

    def _factory(self) -> Callable[..., Any]:
        for plugin in self.plugins:
            load_file(Path(plugin))
        factory = find(self.name)
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


def parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    """What `--param` may set."""
    given = _GIVEN if inspect.isfunction(factory) else ()
    return [p for name, p in inspect.signature(factory).parameters.items() if name not in given]


def find(name: str) -> Callable[..., Any]:
    """The class or function called `name`.

    In this order: built-in, entry point, registered by a plug-in, `file.py:Class`,
    `package.module:Class`. Raises UsageError with the near names.
    """
    if name in BUILT_IN:
        return _attribute(BUILT_IN[name])
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        try:
            loaded: Callable[..., Any] = entry.load()
        except Exception as error:
            raise UsageError(f"retriever {name!r} ({entry.value}): {_said(error)}") from error
        return loaded
    if name in _registered:
        return _registered[name]
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py"):
        module = load_file(Path(place))
        if not hasattr(module, attribute):
            public = _public(module)
            raise UsageError(f"{place} has no {attribute!r}{near(attribute, public)}")
        found: Callable[..., Any] = getattr(module, attribute)
        return found
    if place:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m harness` has it, `harness` has not
        return _attribute(name)
    if name.endswith(".py"):
        raise UsageError(f"retriever {name!r}: name the class or function in it too, {name}:NAME")
    raise UsageError(f"unknown retriever {name!r}{near(name, names())}")


def names() -> list[str]:
    """Names of all retrievers that need no path, sorted."""
    installed = (entry.name for entry in entry_points(group=ENTRY_POINTS))
    return sorted({*BUILT_IN, *installed, *_registered})


def _attribute(path: str) -> Callable[..., Any]:
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise UsageError(f"retriever {path!r}: there is no module {error.name!r}") from None
        raise UsageError(
            f"retriever {path!r} needs the package {error.name!r}: {install(error.name or '')}"
        ) from None
    except Exception as error:
        raise UsageError(f"retriever {path!r}: {_said(error)}") from error
    if not hasattr(module, attribute):
        public = _public(module)
        raise UsageError(f"module {module_name!r} has no {attribute!r}{near(attribute, public)}")
    found: Callable[..., Any] = getattr(module, attribute)
    return found


def load_file(path: Path) -> Any:
    """Import a Python file once a process. Raises UsageError when it is missing or fails."""
    path = path.expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"{path}: no such plug-in file")
    name = f"{PLUGIN_MODULE}{path.stem}_{abs(hash(str(path))):x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        if str(path.parent) not in sys.path:  # files that stand beside it can be imported
            sys.path.append(str(path.parent))
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, SyntaxError):
                raise UsageError(f"{path}, line {error.lineno}: {error.msg}") from None
            if isinstance(error, HarnessError) or not isinstance(error, Exception):
                raise
            raise UsageError(f"plug-in {path}: {_said(error)}") from error
    return sys.modules[name]


def _public(module: Any) -> list[str]:
    """Classes and functions that a module defines itself."""
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return [name for name in own if not name.startswith("_")]


def _said(error: Exception) -> str:
    """An error of somebody else's code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if not frame.filename.startswith("<frozen")][-1]
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message} (raised at {last.filename}, line {last.lineno})"


class FunctionRetriever:
    """A plain function as a retriever.

    `retrieve(text, k) -> ids` answers with the dataset's own ids: whoever wrote it has indexed the
    documents in some other way. `retrieve(text, k, corpus) -> ids` is given the corpus and answers
    with its handles or positions. Further parameters come from `--param`.
    """

    def __init__(self, function: Callable[..., Any], params: Mapping[str, Any]) -> None:
        accepted = inspect.signature(function).parameters
        self.function = function
        self._params = dict(params)
        self._wants_corpus = "corpus" in accepted
        self.own_ids = not self._wants_corpus

    def index(self, corpus: Any) -> None:
        """Keep the corpus for functions that ask for it."""
        self._corpus = corpus

    def search(self, queries: Any, k: int) -> list[Any]:
        """Call the function once a question."""
        given = {**self._params, "corpus": self._corpus} if self._wants_corpus else self._params
        return [self.function(query.text, k, **given) for query in queries]
