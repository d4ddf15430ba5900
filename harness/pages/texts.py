"""Texts of a page, each stored once, and the documents that carry them."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.dataset.reader import Dataset
from harness.schema import as_datetime

LONGEST = 700
"""Characters of a text that a page shows; the rest is in the dataset."""


class Texts:
    """Texts by number, each once; a long one is cut. With `share`, there are none."""

    def __init__(self, *, share: bool) -> None:
        self.all: list[str] = []
        self._share = share
        self._number: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """The number of a text, -1 for one that is empty or not to be shown."""
        if self._share or not text:
            return -1
        if len(text) > LONGEST:
            text = f"{text[:LONGEST].rstrip()} … ({len(text) - LONGEST:,} characters more)"
        if text not in self._number:
            self._number[text] = len(self.all)
            self.all.append(text)
        return self._number[text]


class Shelf:
    """The documents that a page names, each once for every haystack that dates it."""

    def __init__(self, dataset: Dataset, texts: Texts, *, share: bool) -> None:
        self._dataset, self._texts, self._share = dataset, texts, share
        self._places: dict[tuple[int, int], int] = {}
        self._names: dict[str, int] = {}
        self._unknown: dict[int, str] = {}

    def place(self, haystack: int, row: int) -> int:
        """The number of a document row in a haystack."""
        return self._places.setdefault((haystack, row), len(self._places) + len(self._names))

    def unknown(self, name: str) -> int:
        """The number of a document of which only the id is known."""
        if name not in self._names:
            self._names[name] = len(self._places) + len(self._names)
        return self._names[name]

    def columns(self) -> dict[str, list[Any]]:
        """Id, text, date, session and speaker of each number, as parallel lists."""
        n = len(self._places) + len(self._names)
        ids: list[str] = [""] * n
        for name, at in self._names.items():
            ids[at] = name
        keys, numbers = list(self._places), list(self._places.values())
        rows = np.array([row for _, row in keys], np.int32)
        documents = self._dataset.documents
        for at, name in zip(numbers, documents.column("id", rows).to_pylist(), strict=True):
            ids[at] = name
        if self._share:
            return {"id": ids}
        columns: dict[str, list[Any]] = {"id": ids, "text": [-1] * n, "date": [None] * n}
        for at, text in zip(numbers, documents.contents(rows), strict=True):
            columns["text"][at] = self._texts.number(text)
        for at, date in zip(numbers, self._dates(keys), strict=True):
            columns["date"][at] = date
        for name in ("session", "speaker"):
            columns[name] = [None] * n
            for at, value in zip(numbers, documents.column(name, rows).to_pylist(), strict=True):
                columns[name][at] = value
        return columns

    def _dates(self, keys: list[tuple[int, int]]) -> list[str | None]:
        """When each document was said, in its haystack."""
        known: dict[int, dict[int, Any]] = {}
        dated = self._dataset.documents.table["timestamp"]
        if dated.null_count == len(dated) and self._dataset.haystack_ids:
            one = self._dataset.haystack_timestamps(0)
            if one.null_count == len(one):
                return [None] * len(keys)
        for haystack in {haystack for haystack, _ in keys}:
            rows = self._dataset.haystack_rows(haystack).tolist()
            stamps = self._dataset.haystack_timestamps(haystack).to_pylist()
            known[haystack] = dict(zip(rows, stamps, strict=True))
        return [moment(known[haystack].get(row)) for haystack, row in keys]


def moment(seconds: int | None) -> str | None:
    """A schema timestamp as `2023-05-08 13:56`."""
    return None if seconds is None else f"{as_datetime(seconds):%Y-%m-%d %H:%M}"
