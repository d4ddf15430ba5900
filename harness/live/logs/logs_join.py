"""Which labelled query a recall answers: by id, else by its exact text. Never by likeness."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

AMBIGUOUS = -2
UNKNOWN = -1


def normalised(text: str) -> str:
    """A text in Unicode's composed form (NFC) with single spaces; letters and case stay."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(unicodedata.normalize("NFC", text).split())


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
