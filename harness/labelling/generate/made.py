"""A query that was made, with what is known of it by its making."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

GRADE = 3
"""The grade of the document that a query was made from: it holds the answer."""

REASONS = ("same text", "topic", "field", "similarity")
"""Why a document is proposed: it has the words of the query's document; it holds the query's
topic; it has the same value in the template's field; it is near by its vector."""


@dataclass(frozen=True)
class Made:
    """A query. `golds` are rows of the documents it was made from; `haystack` None: all documents.

    `proposed`: rows that may be relevant too, and why ({"by": "topic"}). `origin` is its
    provenance ({"by": "template", "template": ..., "topic": ...}).
    """

    text: str
    haystack: str | None
    golds: tuple[int, ...]
    origin: Mapping[str, Any]
    proposed: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    ability: str | None = None
    answers: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """From its text and haystack alone: it says nothing of the document."""
        data = f"{self.haystack or ''}\0{self.text}".encode("utf-8", "surrogatepass")
        return f"q-{hashlib.sha256(data).hexdigest()[:12]}"

    def with_proposed(self, more: Mapping[int, Mapping[str, Any]]) -> Made:
        """The same with further documents proposed.

        Of several reasons the first in REASONS is named; a similarity is kept in any case.
        """
        known = {row: dict(why) for row, why in self.proposed.items()}
        for row, why in more.items():
            if row not in self.golds:
                both = {**why, **known.get(row, {})}
                by = min((known.get(row, why)["by"], why["by"]), key=REASONS.index)
                known[row] = {**both, "by": by}
        return replace(self, proposed=known)


def merged(queries: list[Made]) -> list[Made]:
    """Equal queries as one that was made from all their documents; in order of their ids."""
    found: dict[str, Made] = {}
    for one in queries:
        before = found.get(one.id)
        if before is None:
            found[one.id] = one
            continue
        golds = tuple(sorted({*before.golds, *one.golds}))
        both = replace(before, golds=golds, answers=(*before.answers, *one.answers))
        proposed = {**before.proposed, **one.proposed}
        found[one.id] = replace(
            both, proposed={r: w for r, w in proposed.items() if r not in golds}
        )
    return [found[id_] for id_ in sorted(found)]
