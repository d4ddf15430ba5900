"""Checks the run.json of a submission, and the queries and failures in its queries.parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.terminal import count_of
from harness.records.submission import Submission
from harness.runfiles.readers import read_rankings

_MAX_NAME = 100
"""Maximum length of a system's name, which is part of the folder name."""
_FINGERPRINT = 8
"""Number of displayed characters of a fingerprint."""

_KINDS: dict[str, tuple[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "query": ("a text", (pa.types.is_string, pa.types.is_large_string)),
    "seconds": ("a number", (pa.types.is_floating, pa.types.is_null)),
    "returned": ("a whole number", (pa.types.is_integer, pa.types.is_null)),
    "confidence": ("a number", (pa.types.is_floating, pa.types.is_null)),
    "abstained": ("true or false", (pa.types.is_boolean,)),
    "failed": ("true or false", (pa.types.is_boolean,)),
}
_KNOWN = ("query", "abstained", "failed")  # of every query


def check_metadata(path: Path, submission: Submission) -> None:
    """Checks the values of a submission's run.json. Raises UsageError, naming the field."""
    if submission.k < 1:
        raise UsageError(f"{path}: k must be 1 or more, not {submission.k}")
    if len(submission.system) > _MAX_NAME or not submission.system.isprintable():
        raise UsageError(
            f"{path}: system must be a name of one line, of at most {_MAX_NAME} characters"
        )
    dataset = submission.dataset
    if len(dataset.fingerprint) < _FINGERPRINT:
        raise UsageError(
            f"{path}: fingerprint must have {_FINGERPRINT} characters or more, not "
            f"{dataset.fingerprint!r}; `harness datasets info {dataset.name}` shows it"
        )


def check_asked(path: Path, dataset: Dataset) -> set[str]:
    """Returns the queries that were asked. Raises UsageError for an invalid file."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path}: not a readable Parquet file ({error})") from None
    for name, (kind, fits) in _KINDS.items():
        if table.column_names.count(name) != 1:
            raise UsageError(f"{path}: must have one column {name!r}; correct it")
        column = table[name]
        if not any(fit(column.type) for fit in fits):
            raise UsageError(f"{path}: {name!r} must be {kind}, not {column.type}")
        if name in _KNOWN and column.null_count:
            raise UsageError(f"{path}: {name!r} must be {kind} in every row, not null")
    ids = table["query"].to_pylist()
    if len(asked := set(ids)) < len(ids):
        raise UsageError(f"{path}: names {count_of(len(ids) - len(asked), 'queries')} twice")
    if unknown := sorted(asked - set(dataset.query_ids)):
        raise UsageError(
            f"{path}: {count_of(len(unknown), 'queries')} that {dataset.name} does not have, "
            f"{unknown[0]} first"
        )
    return asked


def check_answered(made: Path, asked: set[str], path: Path) -> None:
    """Raise UsageError if the run has a ranking for a query that was not asked."""
    found = read_rankings(made / "rankings.parquet")
    sizes = np.diff(found.starts)
    more = [q for q, n in zip(found.query_ids, sizes, strict=True) if n and q not in asked]
    if more:
        raise UsageError(
            f"{path}: {count_of(len(more), 'queries')} with a ranking are missing, {more[0]} first"
            "; add them, or omit the file if all queries were asked"
        )
