"""Finds a retriever by what people type: a built-in name, an entry point, a plug-in, or a path."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.retrievers.contract import Retriever

ENTRY_POINTS = "harness.retrievers"

BUILT_IN = {
    "bm25": "harness.retrievers.bm25:BM25",
    "bm25-okapi": "harness.retrievers.okapi:Okapi",
    "recency": "harness.retrievers.baselines:Recency",
    "random": "harness.retrievers.baselines:Random",
    "oracle": "harness.retrievers.baselines:Oracle",
}

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

    def build(self, seed: int = 0) -> Retriever:
        """A fresh retriever. Raises UsageError for unknown names and parameters.

        `seed` is passed on where the constructor takes one and the parameters do not say.
        """
        for plugin in self.plugins:
            load_file(Path(plugin))
        factory = find(self.name)
        params = dict(self.params)
        accepted = inspect.signature(factory).parameters
        if inspect.isfunction(factory):
            return FunctionRetriever(factory, params)
        if "seed" in accepted and "seed" not in params:
            params["seed"] = seed
        free = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
        unknown = [key for key in params if key not in accepted]
        if unknown and not free:
            raise UsageError(
                f"retriever {self.name!r} has no parameter {unknown[0]!r}"
                f"{near(unknown[0], list(accepted) or ['none'])}"
            )
        try:
            built = factory(**params)
        except (TypeError, ValueError) as error:
            raise UsageError(f"retriever {self.name!r}: {error}") from error
        if not (
            callable(getattr(built, "index", None)) and callable(getattr(built, "search", None))
        ):
            raise UsageError(
                f"retriever {self.name!r} lacks index(corpus) or search(queries, k); "
                "see harness/retrievers/contract.py"
            )
        return built  # type: ignore[no-any-return]


def find(name: str) -> Callable[..., Any]:
    """The class or function called `name`.

    In this order: built-in, entry point, registered by a plug-in, `file.py:Class`,
    `package.module:Class`. Raises UsageError with the near names.
    """
    if name in BUILT_IN:
        return _attribute(BUILT_IN[name])
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        loaded: Callable[..., Any] = entry.load()
        return loaded
    if name in _registered:
        return _registered[name]
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py"):
        module = load_file(Path(place))
        if not hasattr(module, attribute):
            public = [n for n in vars(module) if not n.startswith("_")]
            raise UsageError(f"{place} has no {attribute!r}{near(attribute, public)}")
        found: Callable[..., Any] = getattr(module, attribute)
        return found
    if place:
        return _attribute(name)
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
            f"retriever {path!r} needs the package {error.name!r}: pip install {error.name}"
        ) from None
    if not hasattr(module, attribute):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise UsageError(f"module {module_name!r} has no {attribute!r}{near(attribute, public)}")
    found: Callable[..., Any] = getattr(module, attribute)
    return found


def load_file(path: Path) -> Any:
    """Import a Python file once a process. Raises UsageError when it is missing."""
    path = path.expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"{path}: no such plug-in file")
    name = f"harness_plugin_{path.stem}_{abs(hash(str(path))):x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, SyntaxError):
                raise UsageError(f"{path}, line {error.lineno}: {error.msg}") from None
            raise
    return sys.modules[name]


class FunctionRetriever:
    """A plain function as a retriever.

    `retrieve(text, k) -> ids` answers with the dataset's own ids: whoever wrote it has indexed the
    documents in some other way. `retrieve(text, k, corpus) -> ids` is given the corpus and answers
    with its handles or positions. Further parameters come from `--param`.
    """

    def __init__(self, function: Callable[..., Any], params: Mapping[str, Any]) -> None:
        accepted = inspect.signature(function).parameters
        unknown = [key for key in params if key not in accepted]
        if unknown:
            raise UsageError(
                f"function {function.__name__!r} has no parameter {unknown[0]!r}"
                f"{near(unknown[0], list(accepted))}"
            )
        self._function = function
        self._params = dict(params)
        self._wants_corpus = "corpus" in accepted
        self.own_ids = not self._wants_corpus

    def index(self, corpus: Any) -> None:
        """Keep the corpus for functions that ask for it."""
        self._corpus = corpus

    def search(self, queries: Any, k: int) -> list[Any]:
        """Call the function once a question."""
        given = {**self._params, "corpus": self._corpus} if self._wants_corpus else self._params
        return [self._function(query.text, k, **given) for query in queries]
