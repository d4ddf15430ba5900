"""The answer key from the dataset's export, what became of each query, and which ones count.

The protocols stand here once more, in plain words. One that does not, or in another version, is not
verified, and said to be so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness.datasets.manifest import IDS_ONLY
from reference.rankings import parquet_rows

ABSTENTION = "abstention"
_UNKNOWN = 1 << 31  # more than any ranking holds
"""The ability of queries that have no answer."""

NO_RANKING = "without a ranking"
"""Why a query is left out with --missing skip."""


class Query(NamedTuple):
    """A question; `haystack` names the documents that it is answered from."""

    id: str
    haystack: str
    ability: str
    category: str
    timestamp: int | None
    answers: list[str]


class Judged(NamedTuple):
    """One line of an answer key.

    `evidence_id` names the evidence item in the document; None: the document is its own item.
    `missing`: the haystack does not hold the document.
    """

    document: str
    grade: int
    evidence_id: str | None
    missing: bool


class Document(NamedTuple):
    """What numbers hang on: its session, when it was said, and its text (where asked for)."""

    session: str | None
    timestamp: int | None
    title: str | None
    text: str | None


class Changed(NamedTuple):
    """From `timestamp` on `document` no longer holds, or is forgotten; `by` may say what does."""

    kind: str
    document: str
    timestamp: int
    by: str | None


@dataclass
class Key:
    """A dataset without what no number hangs on; `about` is its dataset.json.

    `judged[name][query]`, for each answer key; `documents[haystack][id]`, of those that a ranking
    or a judgement names; `sizes[haystack]`, how many it holds in all. `changes[haystack]`, and, of
    datasets that have some, `latest[haystack]`, when the last document was said.
    """

    about: dict[str, Any]
    queries: dict[str, Query]
    judged: dict[str, dict[str, list[Judged]]]
    documents: dict[str, dict[str, Document]]
    sizes: dict[str, int]
    changes: dict[str, list[Changed]] = field(default_factory=dict)
    latest: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Key:
        """Read what tests/reference/export_qrels.py wrote."""
        import orjson

        key = cls(orjson.loads((folder / "dataset.json").read_bytes()), {}, {}, {}, {})
        for one in _lines(folder / "queries.jsonl"):
            key.queries[one["id"]] = Query(**one)
        for one in _lines(folder / "qrels.jsonl"):
            of_key = key.judged.setdefault(one.pop("qrels_set"), {})
            of_key.setdefault(one.pop("query"), []).append(Judged(**one))
        for one in _lines(folder / "haystacks.jsonl"):
            key.sizes[one["id"]] = one["documents"]
            key.latest[one["id"]] = one["latest"]
        for one in _lines(folder / "changes.jsonl"):
            key.changes.setdefault(one.pop("haystack"), []).append(Changed(**one))
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
        """How many documents the query could be answered with; of ids alone nobody knows."""
        if self.about["text"] == IDS_ONLY:
            return _UNKNOWN
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
    `returned`: how many documents it got. `abstained`: the system said that there is no answer.
    `unmeasurable`: it returned texts, none of which could be resolved to a document. `confidence`:
    the system's own, where it gave one.
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
        found = cls(set(key.queries))
        if (folder / "queries.parquet").is_file():
            columns = ("query", "failed", "abstained", "returned", "confidence")
            rows = parquet_rows(folder / "queries.parquet", columns)
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
            hits = parquet_rows(folder / "hits.parquet", ("query", "documents"))
            resolved = {hit["query"] for hit in hits if hit["documents"]}
            found.unmeasurable = {hit["query"] for hit in hits} - resolved
        return found

    def counted(self, query: str) -> bool:
        """Whether means are over the query: it was asked, and can be measured."""
        return query in self.asked and query not in self.unmeasurable


@dataclass(frozen=True)
class Rule:
    """A protocol.

    `key`: the answer key. `unanswerable`: queries without an answer count too. `needs`: a query
    counts only where it has a `judgement`, or `evidence` (a judgement of grade 1 or more). `empty`:
    what a metric is worth where a query that counts has no evidence; 0 for those not named.
    `renamed`: of turns scored as sessions, those of a gold session that are not gold themselves
    count as another session (LongMemEval's `noans_`).
    """

    key: str = "default"
    unanswerable: bool = True
    needs: str = ""
    empty: Mapping[str, float] = field(default_factory=dict)
    renamed: bool = False


RULES = {
    # The harness's own: every query with evidence, also those without an answer that have some.
    "memory/1": Rule(needs="evidence"),
    # trec_eval -c: every judged query; one that the run lacks, or nothing is relevant to, counts 0.
    "trec/1": Rule(needs="judgement"),
    # LongMemEval's evaluate_retrieval: answerable questions that have evidence.
    "longmemeval-official/1": Rule(
        "longmemeval-official", unanswerable=False, needs="evidence", renamed=True
    ),
    # Its printing script: all answerable questions. Of no evidence, all was found, but not any.
    "longmemeval-470/1": Rule(
        "longmemeval-official", unanswerable=False, empty={"recall_all": 1.0}, renamed=True
    ),
    # LoCoMo's eval_question_answering: every question; one without evidence counts 1.
    "locomo-official/1": Rule("locomo-official", empty={"recall": 1.0}),
    # Its aggregating script: every question; one without evidence counts 0.
    "locomo-official-aggregate/1": Rule("locomo-official"),
    # RealMem's evaluate_retrieval: queries that have evidence.
    "realmem-official/1": Rule("realmem-official", unanswerable=False, needs="evidence"),
}


FOR_NO_RUN = (
    "unanswerable",
    "without a judgement",
    "without relevant documents",
)
"""Why no run can be scored on a query, whatever became of it."""


def why_not(
    rule: Rule,
    query: Query,
    judged: list[Judged],
    outcomes: Outcomes,
    *,
    skipped: bool,
) -> str | None:
    """Why a protocol does not score a query, in the words of excluded.json; None: it does.

    `skipped`: the run has no ranking for it, and such queries were to be left out.
    """
    if query.id not in outcomes.asked:
        return "not asked in this run"
    if query.ability == ABSTENTION and not rule.unanswerable:
        return "unanswerable"
    if rule.needs == "judgement" and not judged:
        return "without a judgement"
    if rule.needs == "evidence" and not any(one.grade >= 1 for one in judged):
        return "without relevant documents"
    if query.id in outcomes.unmeasurable:
        return "not measurable: no text was resolved"
    return NO_RANKING if skipped else None


def slices(key: Key) -> dict[str, set[str]]:
    """The queries of each slice: all, answerable, each ability, each category of the dataset."""
    found: dict[str, set[str]] = {"all": set(key.queries)}
    without = {q.id for q in key.queries.values() if q.ability == ABSTENTION}
    if without:
        found["answerable"] = set(key.queries) - without
    for query in key.queries.values():
        found.setdefault(query.ability, set()).add(query.id)
        if query.category:
            found.setdefault(f"category:{query.category}", set()).add(query.id)
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    import orjson

    with open(path, "rb") as file:
        yield from map(orjson.loads, file)
