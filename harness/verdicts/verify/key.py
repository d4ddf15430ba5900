"""The answer key as the dataset's export has it, and what became of each query in the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ABSTENTION = "abstention"
"""The ability of queries that have no answer."""


class Query(NamedTuple):
    """A question; `haystack` names the documents that it is answered from."""

    id: str
    haystack: str
    ability: str
    category: str
    answers: list[str]


class Judged(NamedTuple):
    """One line of an answer key.

    `unit` names the piece of evidence that the document carries; None: it is its own. `missing`:
    the haystack does not hold the document.
    """

    document: str
    grade: int
    unit: str | None
    missing: bool


class Document(NamedTuple):
    """What numbers hang on: its session, when it was said, and its text (where asked for)."""

    session: str | None
    timestamp: int | None
    title: str | None
    text: str | None


@dataclass
class Key:
    """A dataset without what no number hangs on; `about` is its dataset.json.

    `judged[name][query]`, for each answer key; `documents[haystack][id]`, of those that a ranking
    or a judgement names; `sizes[haystack]`, how many it holds in all.
    """

    about: dict[str, Any]
    queries: dict[str, Query]
    judged: dict[str, dict[str, list[Judged]]]
    documents: dict[str, dict[str, Document]]
    sizes: dict[str, int]

    @classmethod
    def read(cls, folder: Path) -> Key:
        """Read what harness/dataset/export_key.py wrote."""
        import orjson

        key = cls(orjson.loads((folder / "dataset.json").read_bytes()), {}, {}, {}, {})
        for one in _lines(folder / "queries.jsonl"):
            key.queries[one["id"]] = Query(**one)
        for one in _lines(folder / "judgements.jsonl"):
            of_key = key.judged.setdefault(one.pop("key"), {})
            of_key.setdefault(one.pop("query"), []).append(Judged(**one))
        for one in _lines(folder / "haystacks.jsonl"):
            key.sizes[one["id"]] = one["documents"]
        for one in _lines(folder / "documents.jsonl"):
            held = key.documents.setdefault(one["haystack"], {})
            held[one["id"]] = Document(
                one["session"], one["timestamp"], one.get("title"), one.get("text")
            )
        return key

    def of(self, name: str, query: str) -> list[Judged]:
        """The judgements of one query by one answer key."""
        return self.judged.get(name, {}).get(query, [])

    def held(self, query: str) -> dict[str, Document]:
        """Those of the named documents that the query's haystack holds, by id."""
        return self.documents.get(self.queries[query].haystack, {})

    def size(self, query: str) -> int:
        """How many documents the query could be answered with."""
        own = self.about["own_document_left_out"] and query in self.held(query)
        return self.sizes[self.queries[query].haystack] - bool(own)

    def left_out(self, query: str) -> str | None:
        """The document that does not count in the query's ranking: its own, in some datasets."""
        return query if self.about["own_document_left_out"] else None


@dataclass
class Outcomes:
    """What became of the queries, by id.

    `asked`: the run was to answer it. `replied`: it is known to have, be it with nothing; rankings
    alone cannot tell an empty answer from a query that was left out. `failed`: with an error.
    `returned`: how many documents it got. `abstained`: the system said that there is no answer. `unmeasurable`: it returned texts, none of
    which could be resolved to a document. `confidence`: the system's own, where it gave one.
    """

    asked: set[str]
    replied: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    abstained: set[str] = field(default_factory=set)
    unmeasurable: set[str] = field(default_factory=set)
    confidence: dict[str, float] = field(default_factory=dict)
    returned: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, key: Key) -> Outcomes:
        """From queries.parquet, without which every query was asked, and hits.parquet."""
        import pyarrow.parquet as pq

        found = cls(set(key.queries))
        if (folder / "queries.parquet").is_file():
            rows = pq.read_table(folder / "queries.parquet").to_pylist()
            found.asked = {row["query"] for row in rows}
            found.failed = {row["query"] for row in rows if row["failed"]}
            found.replied = found.asked - found.failed
            found.abstained = {row["query"] for row in rows if row["abstained"]}
            found.returned = {row["query"]: row["returned"] for row in rows}
            for row in rows:
                sure = row["confidence"]
                if sure is not None and not math.isnan(sure):
                    found.confidence[row["query"]] = sure
        if (folder / "hits.parquet").is_file():
            columns = ["query", "documents"]
            hits = pq.read_table(folder / "hits.parquet", columns=columns).to_pylist()
            resolved = {hit["query"] for hit in hits if hit["documents"]}
            found.unmeasurable = {hit["query"] for hit in hits} - resolved
        return found

    def counted(self, query: str) -> bool:
        """Whether something can be said of the query at all."""
        return query in self.asked and query not in self.failed and query not in self.unmeasurable


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    import orjson

    with open(path, "rb") as file:
        yield from map(orjson.loads, file)
