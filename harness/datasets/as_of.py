"""Writes a dataset in which questions see undated documents and those dated up to them.

Each haystack is split into one haystack per question time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.datasets.manifest import HAYSTACKS
from harness.datasets.reader import BETWEEN
from harness.datasets.writer import DatasetWriter, columns
from harness.errors import UsageError
from harness.schema import as_datetime


class AsOfWriter(DatasetWriter):
    """Writes a dataset in which questions see undated documents and those dated up to them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._said: list[int | None] = []
        self._ids: list[str] = []

    def document(self, id: str, text: str, *, timestamp: int | None = None, **about: Any) -> int:
        """Adds a document and returns its row."""
        self._said.append(timestamp)
        self._ids.append(id)
        return super().document(id, text, timestamp=timestamp, **about)

    def documents(
        self, ids: Sequence[str], texts: Sequence[str], titles: Sequence[str | None] | None = None
    ) -> None:
        """Adds many undated documents at once."""
        self._said += [None] * len(ids)
        self._ids += ids
        super().documents(ids, texts, titles)

    def drop_documents(self, rows: Sequence[int]) -> None:
        """Removes documents."""
        super().drop_documents(rows)
        for row in sorted(rows, reverse=True):
            del self._said[row], self._ids[row]

    def finish(self) -> None:
        """Splits haystacks and finishes. Raises UsageError without dated questions or documents."""
        asked = dict(zip(self._queries, self._query_columns["timestamp"], strict=True))
        haystack_of = dict(zip(self._queries, self._query_haystack, strict=True))
        whole, changes = self._haystack_columns, self._changes
        self._haystacks, self._haystack_columns, self._changes = {}, columns(HAYSTACKS), []
        if all(when is None for when in asked.values()):
            raise UsageError("--as-of: none of these questions has a date; remove --as-of")
        if all(when is None for when in self._said) and not any(whole["timestamps"]):
            raise UsageError("--as-of: none of these documents has a date; remove --as-of")
        times: dict[str, set[int | None]] = {}
        for query, name in haystack_of.items():
            times.setdefault(name, set()).add(asked[query])
        there: dict[str, set[int]] = {}
        for name, rows, stamps in zip(*(whole[c] for c in HAYSTACKS.names), strict=True):
            for when in sorted(times.get(name, ()), key=lambda t: (t is None, t or 0)):
                kept = _until(rows, stamps, when, self._said)
                there[_named(name, when)] = {*kept[0]}
                self.haystack(_named(name, when), *kept)
                for change, where in changes:
                    if change.haystack == name and (when is None or change.timestamp <= when):
                        self.change(replace(change, haystack=_named(name, when)), where)
        self._query_haystack = [_named(name, asked[q]) for q, name in haystack_of.items()]
        self._leave_out_what_came_later(there)
        super().finish()

    def _leave_out_what_came_later(self, there: dict[str, set[int]]) -> None:
        """Removes qrels of documents that are later than the question."""
        haystack = dict(zip(self._queries, self._query_haystack, strict=True))
        rows = {id_: row for row, id_ in enumerate(self._ids)}
        judged, kept = self._judged, []
        for i, query in enumerate(self._judged_query):
            row = judged["document"][i]
            row = rows.get(judged["document_id"][i], -1) if row is None else row
            later = row >= 0 and row not in there.get(haystack.get(query, ""), {row})
            if later:
                self.repair("evidence later than the query: excluded", query)
            else:
                kept.append(i)
        self._judged_query = [self._judged_query[i] for i in kept]
        self._judged = {
            name: [column[i] for i in kept] if column else [] for name, column in judged.items()
        }


def _named(haystack: str, when: int | None) -> str:
    moment = "end" if when is None else as_datetime(when).isoformat()
    return f"{haystack}{BETWEEN}{moment}"


def _until(
    rows: Sequence[int] | None,
    stamps: Sequence[int] | None,
    when: int | None,
    said: Sequence[int | None],
) -> tuple[list[int], list[int] | None]:
    """Returns rows of documents up to `when` (None: all), and the haystack's own dates, if any."""
    chosen = range(len(said)) if rows is None else rows
    dates = [said[row] for row in chosen] if stamps is None else stamps
    kept = [i for i, t in enumerate(dates) if when is None or t is None or t <= when]
    return [chosen[i] for i in kept], None if stamps is None else [stamps[i] for i in kept]
