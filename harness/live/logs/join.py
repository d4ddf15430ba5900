"""Which labelled query each recall of a log answers, and which recall of a query is scored.

A recall is joined by its id, else by the exact text of its query; never by likeness.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.live.logs.read import Log
from harness.live.logs.recall import Recall

AMBIGUOUS = -2
UNKNOWN = -1


@dataclass(frozen=True)
class Joined:
    """The recall of each labelled query that was asked, by row, and counts of how they joined."""

    recalls: dict[int, Recall]
    counts: dict[str, int]


def chosen(source: Path, log: Log, dataset: Dataset, repeats: str) -> Joined:
    """The recall that counts for each labelled query. Raises UsageError where none joins."""
    labelled = Labelled(dataset.query_ids, dataset.query_table["text"].to_pylist())
    by_query: dict[int, list[Recall]] = {}
    counts = dict.fromkeys(("by_id", "by_text", "unlabelled", "ambiguous_text", "repeated"), 0)
    for recall in log.recalls:
        row, by_id = labelled.find(recall.query_id, recall.query)
        if row < 0:
            counts["ambiguous_text" if row == AMBIGUOUS else "unlabelled"] += 1
            continue
        counts["by_id" if by_id else "by_text"] += 1
        if recall.returned is not None or recall.texts is not None or recall.failed:
            by_query.setdefault(row, []).append(recall)
    if not by_query:
        raise UsageError(f"{source}: {_nothing_joined(log, counts, dataset)}")
    found = {}
    for row in sorted(by_query):
        mine = by_query[row]
        counts["repeated"] += len(mine) - 1
        if len(mine) > 1 and repeats == "refuse":
            raise UsageError(
                f"{source}: query {dataset.query_ids[row]!r} was asked {len(mine)} times; say "
                "which recall counts with --repeats latest or first"
            )
        if all(recall.time is not None for recall in mine):
            mine.sort(key=lambda recall: recall.time or 0.0)
        found[row] = mine[0] if repeats == "first" else mine[-1]
    return Joined(found, counts)


class Labelled:
    """The labelled queries, to look recalls up in."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """`ids` and `texts` are as long as each other; a text may be empty, which joins nothing."""
        self._by_id = {name: row for row, name in enumerate(ids)}
        self._by_text: dict[str, int] = {}
        for row, text in enumerate(texts):
            key = normalised(text)
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
        return self._by_text.get(normalised(query), UNKNOWN), False


def normalised(text: str) -> str:
    """A text in Unicode's composed form (NFC) with single spaces; letters and case stay."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(unicodedata.normalize("NFC", text).split())


def _nothing_joined(log: Log, counts: dict[str, int], dataset: Dataset) -> str:
    n = len(log.recalls)
    if counts["by_id"] + counts["by_text"]:
        return (
            f"none of its {n} recalls says what was returned; in OpenTelemetry's conventions "
            "documents are opt-in, so switch them on where the spans are made"
        )
    first = log.recalls[0]
    has = f"id {first.query_id!r}" if first.query_id is not None else "no id"
    return (
        f"none of its {n} recalls is of a query of {dataset.name}: the first has {has} and the "
        f"text {first.query!r}, where the dataset has {dataset.query_ids[0]!r} and "
        f"{dataset.query(0).text!r}; map the fields with --log-config"
    )
