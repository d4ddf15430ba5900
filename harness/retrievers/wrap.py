"""Recognizes objects of BEIR, MTEB and PyTerrier, which retrievers of extensions wrap."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectKind:
    """A kind of third-party object: the entry point that wraps it, and its parameter."""

    retriever: str
    parameter: str
    is_one: Callable[[object], bool]


def kind_of(thing: object) -> ObjectKind | None:
    """Returns the kind of a third-party object; None for other objects."""
    return next((kind for kind in KINDS if kind.is_one(thing)), None)


def is_of_mteb(thing: object) -> bool:
    """Tests for an mteb model (encoder, cross-encoder or search) or its description."""
    # Not hasattr: proxies claim to have every attribute.
    return _has(thing, "mteb_model_meta") or (
        type(thing).__module__.startswith("mteb.") and _has(thing, "load_model")
    )


def is_of_beir(thing: object) -> bool:
    """Tests for a BEIR search, called as search(corpus, queries, top_k, ...)."""
    if not _has(thing, "search") or not callable(search := getattr(thing, "search", None)):
        return False
    try:
        taken = [*inspect.signature(search).parameters]
    except (TypeError, ValueError):  # built in, without a signature
        return False
    return taken[:3] == ["corpus", "queries", "top_k"]


def is_of_pyterrier(thing: object) -> bool:
    """Tests for a PyTerrier transformer."""
    base = getattr(sys.modules.get("pyterrier"), "Transformer", None)
    return base is not None and isinstance(thing, base)


def _has(thing: object, name: str) -> bool:
    return inspect.getattr_static(thing, name, None) is not None


KINDS = (
    ObjectKind("pyterrier", "build", is_of_pyterrier),
    ObjectKind("mteb", "model", is_of_mteb),
    ObjectKind("beir", "search", is_of_beir),
)
