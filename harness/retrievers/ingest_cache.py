"""Ingests each corpus once and caches the result, in the system's own store or the cache folder.

A haystack that was ingested has a key: of its content as it is shown (Corpus.key), the system, its
version and code, and the parameters that ingesting depends on. So another k, more queries, a crash
in the search or another run does not pay for it again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import RunError
from harness.retrievers import calls
from harness.retrievers.calls import awaited
from harness.retrievers.contract import Corpus, Retriever
from harness.retrievers.index_cache import INGESTED, folder, index_of
from harness.retrievers.locks import locked

_log = logging.getLogger(__name__)


def ingest(
    retriever: Retriever,
    corpus: Corpus,
    system: Mapping[str, object] | None,
    *,
    require_cached: bool = False,
) -> bool:
    """Ingests a corpus, unless a cached index exists; returns whether it did.

    `system` identifies the retriever: name, params, version, digests of files (JSON values); None
    if it cannot be identified, and then nothing is cached. Raises RunError if `require_cached` and
    there is no cached index, and what the retriever raises.
    """
    keeps = callable(getattr(retriever, "has_index", None))
    if system is not None and keeps:
        return _kept(retriever, corpus, key(retriever, corpus, system), require_cached)
    if system is not None and _saves(retriever) and corpus.fingerprint() is not None:
        return _saved(retriever, corpus, system, require_cached)
    if require_cached:
        raise RunError(
            "--require-cached-index: this system cannot be cached: it has neither save(folder) and "
            "load(folder) nor has_index(key), or is an object without `params`, which identify it"
        )
    calls.index(retriever, corpus)
    return True


def _kept(retriever: Retriever, corpus: Corpus, name: str, require_cached: bool) -> bool:
    """Ask its own store, else index; whether it indexed. One process after the other."""
    calls.release(retriever)  # or one who waits here has what the other waits for
    folder().mkdir(parents=True, exist_ok=True)
    lock = folder() / f".ingesting-{name}.lock"
    note = "another process has a haystack taken in that this one needs too; waiting for it"
    with locked(lock, lambda: note):
        if _asked(retriever, name, corpus):
            calls.wait_until_ready(retriever)
            return False
        if require_cached:
            raise RunError(_not_kept(corpus))
        calls.index(retriever, corpus)
        return True


def key(retriever: Retriever, corpus: Corpus, system: Mapping[str, object]) -> str:
    """The key of a corpus as this system takes it in, in hexadecimal."""
    made_of = {"corpus": corpus.key.hex(), "system": _of_index(retriever, system)}
    plain = json.dumps(made_of, sort_keys=True, default=str)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()


def _of_index(retriever: Retriever, system: Mapping[str, object]) -> dict[str, object]:
    """The system, without the parameters that only searching depends on."""
    free = set(getattr(retriever, "search_params", ()))
    set_params = getattr(type(retriever), "set_params", None)
    if set_params is not None:
        free |= set(inspect.signature(set_params).parameters)
    params = system.get("params")
    kept = params.items() if isinstance(params, Mapping) else ()
    return {**system, "params": {name: value for name, value in kept if name not in free}}


def _asked(retriever: Any, name: str, corpus: Corpus) -> bool:
    wants = len(inspect.signature(retriever.has_index).parameters)
    return bool(
        awaited(retriever.has_index(name, corpus) if wants > 1 else retriever.has_index(name))
    )


def _saves(retriever: Retriever) -> bool:
    return all(callable(getattr(retriever, name, None)) for name in ("save", "load"))


def _saved(
    retriever: Any, corpus: Corpus, system: Mapping[str, object], require_cached: bool
) -> bool:
    """Load what is in the cache folder, else index and save; whether it indexed."""
    now = False

    def build(aside: Path) -> None:
        nonlocal now
        if require_cached:
            raise RunError(_not_kept(corpus))
        calls.index(retriever, corpus)
        now = True
        awaited(retriever.save(aside))

    def opened(whole: Path) -> None:
        if not now:
            loaded = awaited(retriever.load(whole))
            if loaded is not None and loaded is not retriever:
                raise TypeError("load(folder) must load into the object that it is called on")

    about = {"key": key(retriever, corpus, system), "system": system.get("name", "")}
    name = INGESTED + "".join(c if c.isalnum() else "-" for c in str(about["system"]))[-40:]
    try:
        index_of(corpus, name, about, build, opened)
    except Exception as error:
        if not now:
            raise
        # It is paid for, and answers: only that it is not kept has to be known.
        _log.warning(f"note: what was taken in could not be saved: {error}")
    return now


def _not_kept(corpus: Corpus) -> str:
    return (
        f"--require-cached-index: a haystack of {len(corpus):,} documents has no cached index of "
        "this system with these parameters; run without --require-cached-index to build it"
    )
