"""Finds retrievers by name: built-in, entry point, plug-in, or path."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, PluginError, RunError, UsageError, suggest
from harness.io import plugins
from harness.io.files import not_finite
from harness.io.masking import fill_in_variables, refuse_secrets
from harness.io.plugins import (
    FAILURES,
    describe_error,
    load_file,
    module_name,
    public_names,
    registered,
    registered_in,
)
from harness.retrievers.calls import can_serve
from harness.retrievers.contract import Retriever
from harness.retrievers.outputs import check_ranked_by

ENTRY_POINTS = "harness.retrievers"
"""Entry point group of retrievers, including the harness's own extensions (pyproject.toml)."""

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
"""Arguments that the harness passes to a plain function; all others are parameters."""


def wrapper_for(thing: object) -> Callable[..., Retriever] | None:
    """Returns a factory that wraps an object of BEIR, MTEB or PyTerrier as a retriever; None for
    other objects, and if no installed package supports its kind."""
    own = type(thing).__module__.startswith("harness.retrievers.")
    if own or isinstance(thing, type) or inspect.isfunction(thing):
        return None
    from harness.retrievers.wrap import kind_of

    kind = kind_of(thing)
    entry = plugins.find(ENTRY_POINTS, kind.retriever) if kind is not None else None
    if kind is None or entry is None:
        return None
    return partial(plugins.load(entry, "retriever"), **{kind.parameter: thing})


@dataclass(frozen=True)
class RetrieverSpec:
    """Name, parameters and plug-in files from which any process can build a retriever."""

    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises UsageError for unknown names and parameters, for numbers that are not finite, for
        secrets, and for code that fails to import."""
        refuse_secrets(f"retriever {self.name!r}: the parameter", self.params)
        if odd := not_finite(self.params):
            raise UsageError(f"retriever {self.name!r}: {odd}, with which nothing can be computed")
        self._factory()

    def build(self, seed: int = 0) -> Retriever:
        """Builds a new retriever. Raises as `check` does, and RunError if the constructor fails.

        Parameters `env:NAME` get the value of that environment variable. `seed` is passed if the
        constructor accepts it and the parameters do not set it.
        """
        factory = self._factory()
        params = fill_in_variables(dict(self.params), f"retriever {self.name!r}")
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
            advice = ""
            if not is_ours(self.name):
                file, _, thing = self.name.rpartition(":")
                advice = (
                    f"; for an object, write a function that returns {thing}({lacking[0]}=...) "
                    f"and name it as {file}:FUNCTION"
                )
            raise UsageError(f"retriever {self.name!r} needs --param {lacking[0]}=...{advice}")
        try:
            built = factory(**params)
            serves = wrapper_for(built)
            built = serves() if serves is not None else built
        except (TypeError, ValueError) as error:
            said = str(error) if is_ours(self.name) else describe_error(error)
            raise UsageError(f"retriever {self.name!r}: {said}") from error
        except HarnessError:
            raise
        except FAILURES as error:
            raise RunError(
                f"retriever {self.name!r} was not built: {describe_error(error)}"
            ) from error
        if not can_serve(built):
            raise UsageError(
                f"retriever {self.name!r} lacks index(corpus) or search(queries, k), or, in place "
                "of index, reset() and add(documents)"
            )
        _check_signatures(self.name, built)
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
                f"{suggest(unknown[0], known or ['none'])}"
            )
        return factory


def factory_of(name: str) -> Callable[..., Any]:
    """Returns the class or function that builds a retriever. Raises as `find` and `full_name` do.

    For a third-party object, returns its wrapper (see wrapper_for).
    """
    found = find(full_name(name))
    return wrapper_for(found) or found


def _check_signatures(name: str, built: Any) -> None:
    """Raises UsageError for an `index` or `search` that cannot be called as the harness does."""
    for method, arguments in (("index", ["corpus"]), ("search", ["queries", "k"])):
        if (function := getattr(built, method, None)) is None:  # `index = None`: it has `add`
            continue
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError as error:
            call = f"{method}({', '.join(arguments)})"
            raise UsageError(f"retriever {name!r}: called as {call}: {error}") from None
        except ValueError:  # an extension module without signatures
            continue


def _retrieves(function: Callable[..., Any]) -> bool:
    """Tests whether a function answers questions; without required arguments it is a factory."""
    taken = inspect.signature(function).parameters.values()
    positional = (p for p in taken if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD))
    return any(p.default is p.empty for p in positional)


def parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the parameters that `--param` may set."""
    given: Collection[str] = _GIVEN if inspect.isfunction(factory) else ()
    if isinstance(factory, partial):  # wraps a third-party object, which is bound in it
        given = factory.keywords
    return [p for name, p in inspect.signature(factory).parameters.items() if name not in given]


def full_name(name: str) -> str:
    """Returns `mine.py:Class` for an otherwise unknown `mine` with a `mine.py` in this folder.

    Uses the retriever that the file registers as `mine` (then returns the name), else its only
    class with `index` and `search`, or its function `retrieve`. Returns other names unchanged.
    Raises UsageError for a file that has none of these, or several.
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
    """Returns `mine.py` in this folder if `mine` is not built-in, installed or registered."""
    file = Path(f"{name}.py")
    known = name in BUILT_IN or name in registered or len(file.parts) > 1 or ":" in name
    if known or not file.is_file() or plugins.find(ENTRY_POINTS, name):
        return None
    return file


def files_of(name: str) -> list[Path]:
    """Returns the user's file from which this process loaded a plain name, if any."""
    if name in registered_in:
        return [registered_in[name]]
    file = sibling_file(name)
    return [file] if file is not None and module_name(file) in sys.modules else []


def find(name: str) -> Callable[..., Any]:
    """Returns the class or function called `name`.

    Searched in this order: built-in, entry point, registered by a plug-in, `file.py:Class`,
    `package.module:Class`. Raises UsageError with similar names.
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
            raise UsageError(f"{place} has no {attribute!r}{suggest(attribute, public)}")
        found: Callable[..., Any] = getattr(module, attribute)
        return found
    if place:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # present with `python -m harness`, but not `harness`
        return _attribute(name)
    if name.endswith(".py"):
        raise UsageError(f"retriever {name!r}: add the name of the class or function, {name}:NAME")
    raise UsageError(f"unknown retriever {name!r}{_suggestion(name)}")


def _suggestion(name: str) -> str:
    """Returns advice: similar names, or how to run another system."""
    if "," in name:
        several = " ".join(f"--retriever {one.strip()}" for one in name.split(","))
        return f"; several are given as {several}"
    if "did you mean" in (close := suggest(name, names())):
        return close
    file = f"{name}.py" if name.isidentifier() else "FILE.py"
    return (
        f"; `harness retrievers` lists them. For another system write a class with index(corpus) "
        f"and search(queries, k) in a file, and name it as {file}:CLASS"
    )


def is_ours(name: str) -> bool:
    """Tests whether a retriever belongs to this distribution (core or extension)."""
    entry = None if name in BUILT_IN else plugins.find(ENTRY_POINTS, name)
    return name in BUILT_IN or (entry is not None and plugins.is_ours(entry))


def plugin_entry_point(name: str) -> EntryPoint | None:
    """Returns the entry point of another package's retriever; None for other names."""
    entry = None if name in BUILT_IN else plugins.find(ENTRY_POINTS, name)
    return None if entry is None or plugins.is_ours(entry) else entry


def names() -> list[str]:
    """Returns the sorted names of all retrievers that need no path."""
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
        from harness.io.packages import install_command

        command = install_command(error.name or "")
        raise UsageError(
            f"retriever {path!r} needs the package {error.name!r}: {command}"
        ) from None
    except FAILURES as error:
        raise PluginError(f"retriever {path!r}: {describe_error(error)}") from error
    if not hasattr(module, attribute):
        public = public_names(module)
        raise UsageError(f"module {module_name!r} has no {attribute!r}{suggest(attribute, public)}")
    found: Callable[..., Any] = getattr(module, attribute)
    return found


class FunctionRetriever:
    """A plain function as a retriever.

    `retrieve(text, k) -> ids` returns dataset ids; it has indexed the documents independently of
    the harness. `retrieve(text, k, corpus) -> ids` gets the corpus and returns its handles or
    positions. Further parameters are set by `--param`.
    """

    def __init__(self, function: Callable[..., Any], params: Mapping[str, object]) -> None:
        accepted = inspect.signature(function).parameters
        self.function = function
        self._params = dict(params)
        self._wants_corpus = "corpus" in accepted
        self.returns_dataset_ids = not self._wants_corpus
        given = {**params, "corpus": None} if self._wants_corpus else params
        try:
            inspect.signature(function).bind("", 1, **given)
        except TypeError as error:
            call = f"{function.__name__}(text, k{', corpus' if self._wants_corpus else ''})"
            raise UsageError(f"the function is called as {call}: {error}") from None

    def index(self, corpus: Any) -> None:
        """Stores the corpus for functions with a `corpus` parameter."""
        self._corpus = corpus

    def search(self, queries: Any, k: int) -> list[Any]:
        """Calls the function once per question."""
        given = {**self._params, "corpus": self._corpus} if self._wants_corpus else self._params
        return [self.function(query.text, k, **given) for query in queries]
