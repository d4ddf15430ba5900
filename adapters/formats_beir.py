"""BEIR's format: corpus.jsonl, queries.jsonl, and qrels/<split>.tsv (see trec.qrels)."""

from __future__ import annotations

from collections.abc import Iterator
from operator import methodcaller

from harness.dataset.adapters.formats.documents import Documents
from harness.dataset.adapters.formats.jsonl import batches, optional_string, string, strings
from harness.dataset.adapters.formats.text import TextFile

_title = methodcaller("get", "title")


def documents_of(file: TextFile) -> Iterator[Documents]:
    """Documents of a corpus.jsonl. Raises UsageError for a record without `_id` or `text`."""
    for lines, records in batches(file):
        titles = list(map(_title, records))
        if set(map(type, titles)) - {str, type(None)}:
            titles = [
                optional_string(file, line, record, "title")
                for line, record in zip(lines, records, strict=True)
            ]
        yield Documents(
            lines,
            strings(file, lines, records, "_id"),
            strings(file, lines, records, "text"),
            titles,
        )


def queries_of(file: TextFile) -> Iterator[tuple[int, str, str]]:
    """Line, id and text of each query. Raises UsageError for one without `_id` or `text`."""
    for lines, records in batches(file):
        for line, record in zip(lines, records, strict=True):
            yield line, string(file, line, record, "_id"), string(file, line, record, "text")
