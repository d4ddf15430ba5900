"""Runs whose system returned texts: the ranking that hits.parquet makes, its texts, its cost.

Which documents a text stands for was found by matching, which is not done again here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.verdicts.verify.key import Key
from harness.verdicts.verify.rankings import Run
from harness.verdicts.verify.sections import Numbers, token_count

UNRESOLVED = "unresolved:"
"""How an id begins that stands for a text of which no document was found."""

_DEEPEST = 10
"""No metric of texts looks below this rank."""


@dataclass(frozen=True)
class Hits:
    """What was returned as texts, by query: the documents it makes, what each costs, and texts."""

    rankings: dict[str, list[str]]
    costs: dict[str, list[int]]
    texts: dict[str, list[str]]
    numbers: Numbers


def read_hits(path: Path, key: Key, k: int) -> Hits:
    """The hits of a run of depth `k`."""
    import pyarrow.parquet as pq

    rows = pq.read_table(path).to_pylist()
    found = Hits({}, {}, {}, _counts(rows))
    beyond = 0
    by_query: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["hit"]):
        by_query.setdefault(row["query"], []).append(row)
    for query, hits in by_query.items():
        ranking: list[str] = []
        costs: list[int] = []
        for hit in hits:
            # Each document that does not stand higher takes a place of its own; a text of which no
            # document is known takes one in which nothing is found.
            new = [d for d in dict.fromkeys(hit["documents"]) if d not in ranking]
            if not hit["documents"]:
                new = [f"{UNRESOLVED}{len(ranking) + 1}"]
            ranking += new
            if hit["text"]:  # costs once, where its first document stands
                costs += [token_count(hit["text"]), *[0] * (len(new) - 1)][: len(new)]
            else:
                costs += [_cost(key, query, document) for document in new]
        beyond += max(0, len(ranking) - k)
        found.rankings[query], found.costs[query] = ranking[:k], costs[:k]
        found.texts[query] = [
            hit["text"] or " ".join(_text(key, query, d) for d in hit["documents"]) for hit in hits
        ]
    found.numbers["documents_beyond_k_left_out",] = beyond
    return found


def document_texts(key: Key, run: Run) -> dict[str, list[str]]:
    """The text in each place of a ranking of documents; blank for one that the haystack lacks."""
    return {query: [_text(key, query, d) for d in run[query].documents[:_DEEPEST]] for query in run}


def same_rankings(hits: Hits, run: Run) -> list[str]:
    """Queries whose ranking is not what their hits make."""
    queries = dict.fromkeys((*hits.rankings, *run))
    return [
        query
        for query in queries
        if hits.rankings.get(query, []) != (run[query].documents if query in run else [])
    ]


def _counts(rows: Sequence[Mapping[str, Any]]) -> Numbers:
    """What scores.json says of the hits, by the keys below `hits`."""
    resolved = {row["query"] for row in rows if row["documents"]}
    looked = [row["token_f1"] for row in rows if row["token_f1"] is not None]
    numbers: Numbers = {
        ("returned",): len(rows),
        ("resolved",): sum(bool(row["documents"]) for row in rows),
        ("unknown_sources",): sum(row["unknown_sources"] for row in rows),
        ("matched_by_text",): len(looked),
        ("queries_not_measurable",): len({row["query"] for row in rows} - resolved),
    }
    for way, n in Counter(row["way"] for row in rows).items():
        numbers["by_way", way] = n
    for least in (0.1, 0.3, 0.5):
        numbers["token_f1_at_least", str(least)] = sum(one >= least for one in looked)
    return numbers


def _cost(key: Key, query: str, document: str) -> int:
    held = key.held(query).get(document)
    return token_count(held.text) + token_count(held.title) if held else 0


def _text(key: Key, query: str, document: str) -> str:
    held = key.held(query).get(document)
    if held is None:
        return ""
    return f"{held.title} {held.text}".strip() if held.title else held.text or ""
