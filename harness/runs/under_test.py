"""What is put under test: what a program or a command names, as the run takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.masking import refuse_in
from harness.records.run import RetrieverRecord
from harness.retrievers.calls import can_serve
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import FunctionRetriever, RetrieverSpec
from harness.retrievers.wrap import wrapper_for
from harness.runs.isolated import Isolation, isolation
from harness.runs.plan import Settings
from harness.runs.provenance import known_by, named_files


def under_test(
    retriever: str | RetrieverSpec | Retriever | Callable[..., Any],
) -> RetrieverSpec | Retriever:
    """What is run, of whatever a program names or brings. Raises UsageError for what is none, and
    for a parameter that is a secret."""
    if isinstance(retriever, str):
        return RetrieverSpec(retriever)
    if isinstance(retriever, RetrieverSpec):
        refuse_in(f"retriever {retriever.name!r}: the parameter", retriever.params)
        return retriever
    serves = wrapper_for(retriever)
    if serves is not None:
        return serves()
    if isinstance(retriever, Retriever) or can_serve(retriever):
        return retriever  # type: ignore[return-value]  # a memory that is told has no index
    if not callable(retriever):
        lacks = [name for name in ("index", "search") if not hasattr(retriever, name)]
        raise UsageError(
            f"a {type(retriever).__qualname__} is no retriever: it lacks {' and '.join(lacks)}; "
            "give one with index(corpus) and search(queries, k), or a function of a text"
        )
    return FunctionRetriever(retriever, {})


def in_sandbox(
    retriever: RetrieverSpec | Retriever, dataset: Dataset, out: Path, seed: int
) -> Isolation:
    """The same in a sandbox of its own. Raises UsageError for what was built here already."""
    if not isinstance(retriever, RetrieverSpec):
        raise UsageError(
            "a retriever that was built or loaded here cannot be isolated any more: name it as "
            "file.py:Class"
        )
    return isolation(retriever, named_files(retriever), dataset, out, seed)


def batch_size_of(settings: Settings, retriever: Any) -> int:
    """The chosen one, else the retriever's own, else 1. Raises UsageError for what is none."""
    size = settings.batch_size
    if size is None:
        size = getattr(retriever, "batch_size", 1)
    if not isinstance(size, int) or size < 1:
        raise UsageError(f"the batch size must be a whole number of 1 or more, not {size!r}")
    return size


def system_of(about: RetrieverRecord, built: Retriever, *, named: bool) -> dict[str, object] | None:
    """See `known_by`; None for an object that a program built and that has no `params`: nobody
    knows its settings."""
    return known_by(about, built) if named or hasattr(built, "params") else None


def check_fit(settings: Settings, built: Retriever) -> None:
    """Raises UsageError for settings that this retriever cannot be run with."""
    if settings.concurrency > 1 and not getattr(built, "thread_safe", False):
        raise UsageError(
            f"--concurrency {settings.concurrency}: the retriever does not say that its search may "
            "be called several times at once; if it may, give it thread_safe = True"
        )
    if settings.max_usd is not None and not callable(getattr(built, "report", None)):
        raise UsageError(
            "--max-usd cannot be kept: the system has no report() that says what it has used"
        )
