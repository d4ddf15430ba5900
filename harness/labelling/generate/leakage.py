"""Where a labelled set gives its answers away, or is not what it seems: three checks.

1. *quotes*: a query that has words in a row from its document. How much of the queries' words
   stands in their documents says how far the set favours retrievers that match words.
2. *splits*: the same text on both sides of a split. Documents that queries of two splits have in
   common, equal or nearly equal ones, and queries with the same content words.
3. *public*: documents and queries that a public benchmark has too, and so perhaps every model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

from harness.errors import UsageError
from harness.labelling.generate.benchmarks import RUN, SHARE, Benchmark, Texts, named, prepared
from harness.labelling.generate.labelled import Asked, LabelledSet, read_set
from harness.labelling.generate.repeated import (
    QUOTED,
    Embed,
    content_words,
    embedder,
    longest_runs,
    pairs,
    shared,
)
from harness.labelling.generate.sources import normalised
from harness.labelling.generate.written import Made
from harness.retrievers.tokenizer import Tokenizer

SHOWN = 50
"""Examples that are kept of each finding; the counts are of all."""

LEAKAGE = "leakage.json"
Found = dict[str, Any]


def check(
    labelled: LabelledSet,
    embed: Embed | None,
    similarity: float | None,
    against: Sequence[Benchmark] = (),
) -> Found:
    """What `quotes`, `splits` and `public` found; `leaks` is how many findings are leaks.

    `against` are looked at beside the datasets that are prepared here.
    """
    cached, not_looked_at = prepared()
    asked = list(against)
    there = {one.dataset.fingerprint for one in asked}
    every = [*asked, *(one for one in cached if one.dataset.fingerprint not in there)]
    found: Found = {
        "quotes": quotes(labelled),
        "splits": splits(labelled, embed, similarity),
        "public": {"looked_at": public(labelled, every), "not_looked_at": not_looked_at},
    }
    return {**found, "leaks": leaks(found)}


def check_folder(
    folder: Path,
    similarity: float | None,
    embedding: str = "",
    against: Sequence[str] = (),
    *,
    quiet: bool = True,
) -> Found:
    """Check a labelling project, or a folder that the dataset `labelled` reads.

    Raises UsageError for any other folder, and where the model is missing.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name a labelling project or a labelled set")
    what = "harness label check (without --similarity off)"
    embed = embedder(what, embedding) if similarity is not None else None
    return check(read_set(folder), embed, similarity, named(against, quiet=quiet))


def quotes(labelled: LabelledSet) -> Found:
    """Queries that quote a relevant document, and the words that all queries share with theirs.

    `words_shared` is over the n queries with a relevant document and a word that any document has.
    """
    asked = [query for query in labelled.queries if query.relevant]
    documents = [[labelled.documents[row].content for row in q.relevant] for q in asked]
    texts = [query.text for query in asked]
    found = longest_runs(texts, documents)
    flagged = [
        {"query": query.id, "text": query.text, "words_in_a_row": one.length, "quoted": one.words}
        for query, one in zip(asked, found, strict=True)
        if one.length >= QUOTED
    ]
    rows = [query.relevant for query in asked]
    measured = shared(texts, rows, [source.content for source in labelled.documents])
    shares = [share for share in measured if share is not None]
    return {
        "n": len(asked),
        "words_in_a_row": QUOTED,
        "quoting": len(flagged),
        "longest_run": max((one.length for one in found), default=None),
        "words_shared": {
            "n": len(shares),
            "mean": fmean(shares) if shares else None,
            "median": median(shares) if shares else None,
            "all_shared": sum(share > 1 - 1e-9 for share in shares),
        },
        "examples": flagged[:SHOWN],
    }


def splits(labelled: LabelledSet, embed: Embed | None, least: float | None) -> Found:
    """What two splits have in common; `near_documents` is None where nothing was embedded.

    `proposed_in_two` are documents that would stand in two splits if a person accepted them.
    """
    by_split: dict[str, list[Asked]] = {}
    for query in labelled.queries:
        if query.split is not None:
            by_split.setdefault(query.split, []).append(query)
    found: Found = {
        "queries": {name: len(of) for name, of in sorted(by_split.items())},
        "similarity": least,
        "documents": [],
        "proposed_documents": [],
        "same_texts": [],
        "near_documents": None if embed is None else [],
        "same_queries": [],
    }
    terms = Tokenizer()
    for one, two in combinations(sorted(by_split), 2):
        sides = (by_split[one], by_split[two])
        gold = [sorted({row for query in side for row in query.relevant}) for side in sides]
        common = set(gold[0]) & set(gold[1])
        reached = [{row for q in side for row in (*q.relevant, *q.proposed)} for side in sides]
        where = {"splits": [one, two]}
        name = [source.id for source in labelled.documents]
        found["documents"] += [{**where, "document": name[row]} for row in sorted(common)]
        found["proposed_documents"] += [
            {**where, "document": name[row]} for row in sorted((reached[0] & reached[1]) - common)
        ]
        found["same_texts"] += [
            {**where, "documents": [name[a], name[b]]} for a, b in _same(labelled, gold)
        ]
        if embed is not None and least is not None and all(gold):
            first, second = (
                embed([labelled.documents[row].content for row in rows]) for rows in gold
            )
            near = pairs(first, second, least)
            found["near_documents"] += [
                {**where, "documents": [name[gold[0][a]], name[gold[1][b]]], "similarity": value}
                for a, b, value in zip(*(column.tolist() for column in near), strict=True)
                if gold[0][a] != gold[1][b] and _meet(labelled, gold[0][a], gold[1][b])
            ]
        found["same_queries"] += [
            {**where, "queries": [a.id, b.id], "texts": [a.text, b.text]}
            for a, b in _same_queries(sides, terms)
        ]
    return found


def public(labelled: LabelledSet, benchmarks: Sequence[Benchmark]) -> list[Found]:
    """For each benchmark which documents and queries of the set it has too."""
    documents = Texts([source.content for source in labelled.documents])
    queries = Texts([query.text for query in labelled.queries])
    rows = []
    for one in benchmarks:
        of_documents = documents.within(one.documents())
        of_queries = queries.within(one.queries(), any_order=True)
        rows.append(
            {
                "dataset": one.name,
                "of": {"documents": one.n_documents, "queries": one.n_queries},
                "words_in_a_row": RUN,
                "share": SHARE,
                "same_documents": len(of_documents.exact),
                "near_documents": len(of_documents.near),
                "same_queries": len(of_queries.exact),
                "near_queries": len(of_queries.near),
                "examples": {
                    "documents": [
                        labelled.documents[row].id
                        for row in sorted({*of_documents.exact, *of_documents.near})[:SHOWN]
                    ],
                    "queries": [
                        labelled.queries[row].id
                        for row in sorted({*of_queries.exact, *of_queries.near})[:SHOWN]
                    ],
                },
            }
        )
    return rows


def leaks(found: Mapping[str, Any]) -> int:
    """How many findings are leaks: quotes, what two splits share, texts of public benchmarks.

    Proposed documents are none before somebody accepts them.
    """
    said = found["splits"]
    across = ("documents", "same_texts", "near_documents", "same_queries")
    benchmarks = ("same_documents", "near_documents", "same_queries", "near_queries")
    counted: int = (
        found["quotes"]["quoting"]
        + sum(len(said[name] or ()) for name in across)
        + sum(row[name] for row in found["public"]["looked_at"] for name in benchmarks)
    )
    return counted


def asking_the_same(queries: Sequence[Made]) -> list[list[int]]:
    """For queries of one haystack with the same content words: a document of each, together."""
    terms = Tokenizer()
    found: dict[tuple[object, ...], list[int]] = {}
    for made in queries:
        words = content_words(made.text, terms)
        if words:
            found.setdefault((made.haystack, words), []).append(made.golds[0])
    return [together for together in found.values() if len(together) > 1]


def _meet(labelled: LabelledSet, one: int, two: int) -> bool:
    """Whether two documents stand in one haystack: else they are no alternative to each other."""
    a, b = (labelled.documents[row].haystacks for row in (one, two))
    return not a or not b or bool(set(a) & set(b))


def _same(labelled: LabelledSet, gold: list[list[int]]) -> list[tuple[int, int]]:
    """Rows of the first split and others of the second that have the same words."""
    by_text: dict[str, list[int]] = {}
    for row in gold[0]:
        by_text.setdefault(labelled.documents[row].normalised, []).append(row)
    return [
        (a, b)
        for b in gold[1]
        for a in by_text.get(labelled.documents[b].normalised, ())
        if a != b and _meet(labelled, a, b)
    ]


def _same_queries(
    sides: tuple[list[Asked], list[Asked]], terms: Tokenizer
) -> list[tuple[Asked, Asked]]:
    """Queries of two splits with the same words, or the same content words in any order."""

    def of(query: Asked) -> tuple[object, ...]:
        # Queries to different haystacks ask different things in the same words.
        return (query.haystack, content_words(query.text, terms) or normalised(query.text))

    first: dict[tuple[object, ...], Asked] = {}
    for query in sides[0]:
        first.setdefault(of(query), query)
    return [(first[of(query)], query) for query in sides[1] if of(query) in first]
