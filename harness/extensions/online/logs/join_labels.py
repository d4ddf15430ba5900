"""Joins requests of a log to labelled queries, and selects the request of each query to score.

A request is joined by its id, else by the exact text of its query; never by likeness.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.logs.events import RetrievalEvent
from harness.extensions.online.logs.read import Log
from harness.records.run import JoinCounts

AMBIGUOUS = -2
UNKNOWN = -1


@dataclass(frozen=True)
class JoinedLog:
    """The request of each labelled query that was asked, by row, and counts of how they joined."""

    events: dict[int, RetrievalEvent]
    counts: JoinCounts


def join_labels(source: Path, log: Log, dataset: Dataset, repeats: str) -> JoinedLog:
    """The request that counts for each labelled query. Raises UsageError where none joins."""
    labelled = QueryIndex(dataset.query_ids, dataset.query_table["text"].to_pylist())
    by_query: dict[int, list[RetrievalEvent]] = {}
    counts = JoinCounts()
    for event in log.events:
        row, by_id = labelled.find(event.query_id, event.query)
        if row < 0:
            counts.ambiguous_text += row == AMBIGUOUS
            counts.unlabelled += row != AMBIGUOUS
            continue
        counts.by_id += by_id
        counts.by_text += not by_id
        if event.returned is not None or event.texts is not None or event.failed:
            by_query.setdefault(row, []).append(event)
    if not by_query:
        raise UsageError(f"{source}: {_nothing_joined(log, counts, dataset)}")
    found = {}
    for row in sorted(by_query):
        mine = by_query[row]
        counts.repeated += len(mine) - 1
        if len(mine) > 1 and repeats == "refuse":
            raise UsageError(
                f"{source}: query {dataset.query_ids[row]!r} was asked {len(mine)} times; say "
                "which request counts with --repeats latest or first"
            )
        if all(event.time is not None for event in mine):
            mine.sort(key=lambda event: event.time or 0.0)
        found[row] = mine[0] if repeats == "first" else mine[-1]
    return JoinedLog(found, counts)


class QueryIndex:
    """The labelled queries, to look requests up in."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """`ids` and `texts` are as long as each other; a text may be empty, which joins nothing."""
        self._by_id = {name: row for row, name in enumerate(ids)}
        self._by_text: dict[str, int] = {}
        for row, text in enumerate(texts):
            key = normalise_text(text)
            if key:
                self._by_text[key] = AMBIGUOUS if key in self._by_text else row

    def find(self, query_id: str | None, query: str | None) -> tuple[int, bool]:
        """(row, by id) of the labelled query; row UNKNOWN, or AMBIGUOUS where a text is several's.

        Where the log has no id, what it calls the query may be one.
        """
        name = query if query_id is None else query_id
        row = UNKNOWN if name is None else self._by_id.get(name, UNKNOWN)
        if row != UNKNOWN or query is None:
            return row, True
        return self._by_text.get(normalise_text(query), UNKNOWN), False


def normalise_text(text: str) -> str:
    """A text in Unicode's composed form (NFC) with single spaces; letters and case stay."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(unicodedata.normalize("NFC", text).split())


def _nothing_joined(log: Log, counts: JoinCounts, dataset: Dataset) -> str:
    n = len(log.events)
    if counts.by_id + counts.by_text:
        return (
            f"none of its {n} requests says what was returned; in OpenTelemetry's conventions "
            "documents are opt-in, so switch them on where the spans are made"
        )
    first = log.events[0]
    has = f"id {first.query_id!r}" if first.query_id is not None else "no id"
    return (
        f"none of its {n} requests is of a query of {dataset.name}: the first has {has} and the "
        f"text {first.query!r}, where the dataset has {dataset.query_ids[0]!r} and "
        f"{dataset.query(0).text!r}; map the fields with --log-config"
    )
