"""Describes haystacks in which every query returned nothing."""

from __future__ import annotations

from harness.records.run import EmptyHaystacks


def empty_message(found: EmptyHaystacks) -> str:
    """Returns one line: how many haystacks, the probable cause, and what to do."""
    named = ", ".join(map(repr, found.examples)) + (
        ", ..." if found.n > len(found.examples) else ""
    )
    allow = "Such queries count as wrong; if that is as it should be, allow it (--allow-empty)"
    where = f"in {found.n} of {found.total} haystacks"
    if found.scripts is not None:
        asked, written = found.scripts
        return (
            f"{where} no query shares a term with a document ({found.queries} queries; {named}; "
            f"the first: queries in {asked}, documents in {written} script): word matching cannot "
            f"find them, an embedding model may (--retriever minilm or dense). {allow}"
        )
    return (
        f"{where} no query returned a document ({found.queries} queries; {named}): was "
        f"the index ready, and is it the right one? {allow}"
    )
