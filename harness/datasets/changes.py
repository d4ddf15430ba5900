"""Resolves changes of documents (updates and deletions) to rows, and rejects invalid ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from harness.errors import UsageError
from harness.schema import CHANGE_KINDS, Change, as_datetime

Held = tuple[Sequence[int] | None, Sequence[int] | None]
"""Rows and timestamps of a haystack; see schema.Haystack."""


class _DatedRow(NamedTuple):
    """A document's row, and its date in a haystack."""

    row: int
    timestamp: int | None


def with_rows(
    changes: Sequence[tuple[Change, str]], haystacks: Mapping[str, Held], documents: Path
) -> dict[str, list[Any]]:
    """Returns the columns of manifest.CHANGES, sorted by haystack and time.

    `changes` are paired with their location, for errors; `documents` is the finished document
    table. Raises UsageError for an unknown kind, haystack or document, an update without a new
    document or by itself, a change that precedes its documents, and a duplicate.
    """
    with pa.memory_map(str(documents)) as source:
        table = pa.ipc.open_file(source).read_all().select(["id", "timestamp"])
        said = {
            name: _said(table, *haystacks[name])
            for name in {change.haystack for change, _ in changes}
            if name in haystacks
        }
    numbers = {name: number for number, name in enumerate(haystacks)}
    seen: dict[Change, str] = {}
    found = []
    for change, where in changes:
        if change in seen:
            raise UsageError(f"{where}: the same change as {seen[change]}; keep one")
        seen[change] = where
        row, by_row = _checked(change, where, said)
        found.append((numbers[change.haystack], change.kind, row, change.timestamp, by_row))
    found.sort(key=lambda one: (one[0], one[3]))
    names = ("haystack", "kind", "document", "timestamp", "by")
    return dict(zip(names, map(list, zip(*found, strict=True)), strict=True))


def _said(
    table: pa.Table, rows: Sequence[int] | None, timestamps: Sequence[int] | None
) -> dict[str, _DatedRow]:
    """Returns the documents of a haystack, by id."""
    rows = range(len(table)) if rows is None else rows
    own = table.take(pa.array(rows, pa.int64()))
    stamps = own["timestamp"].to_pylist() if timestamps is None else timestamps
    return dict(zip(own["id"].to_pylist(), map(_DatedRow, rows, stamps), strict=True))


def _checked(
    change: Change, where: str, said: Mapping[str, Mapping[str, _DatedRow]]
) -> tuple[int, int | None]:
    """Returns the rows of the document and of `by`. Raises UsageError for invalid changes."""
    if change.kind not in CHANGE_KINDS:
        raise UsageError(f"{where}: the kind {change.kind!r} is none of {', '.join(CHANGE_KINDS)}")
    if change.haystack not in said:
        raise UsageError(f"{where}: names the haystack {change.haystack!r}, which is not there")
    if change.kind != "forget" and change.by is None:
        raise UsageError(f"{where}: an update by nothing; name the new document in `by`")
    if change.by == change.document:
        raise UsageError(f"{where}: the document is changed by itself; name another one in `by`")
    held = said[change.haystack]
    row = _row(change.document, change, where, held)
    return row, None if change.by is None else _row(change.by, change, where, held)


def _row(id_: str, change: Change, where: str, held: Mapping[str, _DatedRow]) -> int:
    """Returns the row of a document of a change. Raises UsageError if it is missing or later."""
    if id_ not in held:
        raise UsageError(
            f"{where}: the document {id_!r} is not in the haystack {change.haystack!r}; add it, or "
            "take the change out"
        )
    row, timestamp = held[id_]
    if timestamp is not None and timestamp > change.timestamp:
        raise UsageError(
            f"{where}: at {as_datetime(change.timestamp)}, before the document {id_!r} was said, "
            f"at {as_datetime(timestamp)}; correct one of the two times"
        )
    return row
