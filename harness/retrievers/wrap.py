"""Wraps objects of BEIR, MTEB and PyTerrier as retrievers.

None of these packages is imported here: an object of theirs implies that it is imported already.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.io import plugins
from harness.retrievers.contract import Retriever


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
