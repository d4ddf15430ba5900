"""Ingests each corpus once: from a cached index if there is one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import RunError
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Retriever


def ingest(
    retriever: Retriever,
    corpus: Corpus,
    system: Mapping[str, object] | None,
    *,
    require_cached: bool = False,
) -> bool:
    """Ingests a corpus, unless a cached index exists (see index_cache.py); returns whether it did.

    `system` identifies the retriever: name, params, version, digests of files (JSON values); None
    if it cannot be identified, and then nothing is cached. Raises RunError if `require_cached` and
    there is no cached index, and what the retriever raises.
    """

    def has(*names: str) -> bool:
        return all(callable(getattr(retriever, name, None)) for name in names)

    if system is not None and has("has_index"):
        from harness.retrievers.index_cache import ingest_in_own_store, key

        return ingest_in_own_store(
            retriever, corpus, key(retriever, corpus, system), require_cached
        )
    if system is not None and has("save", "load") and corpus.fingerprint() is not None:
        from harness.retrievers.index_cache import ingest_and_save

        return ingest_and_save(retriever, corpus, system, require_cached)
    if require_cached:
        raise RunError(
            "--require-cached-index: this system cannot be cached: it has neither save(folder) and "
            "load(folder) nor has_index(key), or is an object without `params`, which identify it"
        )
    calls.index(retriever, corpus)
    return True
