"""Leakage checks of a labelled set.

1. *quotes*: a query that has words in a row from its document. The share of the queries' words in
   their documents shows how much the set favours retrievers that match words.
2. *splits*: the same text on both sides of a split. Documents that queries of two splits have in
   common, equal or similar ones, and queries with the same content words.
3. *benchmarks*: documents and queries that a public benchmark has too, and so perhaps every model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from harness.errors import UsageError
from harness.labelling.generate.benchmarks import (
    MIN_SHARE,
    RUN_LENGTH,
    Benchmark,
    TextIndex,
    named,
    prepared,
)
from harness.labelling.generate.labelled import LabelledQuery, LabelledSet, read_set
from harness.labelling.generate.near_duplicates import (
    MIN_QUOTE,
    Embed,
    content_words,
    embedder,
    longest_runs,
    pairs,
    shared,
)
from harness.labelling.generate.records import (
    BenchmarkCheck,
    LeakageReport,
    Overlap,
    Quotation,
    QuoteCheck,
    SharedWords,
    SplitCheck,
    SplitDocument,
    SplitDocuments,
    SplitQueries,
)
from harness.labelling.generate.sources import normalised
from harness.labelling.generate.write_project import GeneratedQuery
from harness.retrievers.bm25.tokenizer import Tokenizer

MAX_EXAMPLES = 50
"""Examples that are kept of each finding; the counts are of all."""

LEAKAGE = "leakage.json"


def check(
    labelled: LabelledSet,
    embed: Embed | None,
    similarity: float | None,
    against: Sequence[Benchmark] = (),
) -> LeakageReport:
    """Runs the three checks.

    The set is compared with `against` and with the datasets that are prepared here.
    """
    cached, skipped = prepared()
    given = {one.dataset.fingerprint for one in against}
    every = [*against, *(one for one in cached if one.dataset.fingerprint not in given)]
    quoted, across = quotes(labelled), splits(labelled, embed, similarity)
    overlaps = benchmarks(labelled, every)
    # Proposed documents are no leak before a person accepts them.
    leaks = (
        quoted.quoting
        + len(across.documents)
        + len(across.same_texts)
        + len(across.similar_documents or ())
        + len(across.same_queries)
        + sum(one.same_documents + one.similar_documents for one in overlaps)
        + sum(one.same_queries + one.similar_queries for one in overlaps)
    )
    return LeakageReport(
        quotes=quoted,
        splits=across,
        benchmarks=BenchmarkCheck(compared=overlaps, skipped=skipped),
        leaks=leaks,
    )


def check_folder(
    folder: Path,
    similarity: float | None,
    embedding: str = "",
    against: Sequence[str] = (),
    *,
    quiet: bool = True,
) -> LeakageReport:
    """Checks a labelling project, or a folder that the dataset `labelled` reads.

    Raises UsageError for any other folder, and where the model is missing.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name a labelling project or a labelled set")
    what = "harness label check (without --similarity off)"
    embed = embedder(what, embedding) if similarity is not None else None
    return check(read_set(folder), embed, similarity, named(against, quiet=quiet))


def quotes(labelled: LabelledSet) -> QuoteCheck:
    """Finds queries that quote a relevant document, and measures the words that queries share with
    theirs.

    `shared_words` is over the queries with a relevant document and a word that any document has.
    """
    asked = [query for query in labelled.queries if query.relevant]
    documents = [[labelled.documents[row].content for row in q.relevant] for q in asked]
    texts = [query.text for query in asked]
    found = longest_runs(texts, documents)
    flagged = [
        Quotation(query=query.id, text=query.text, run_length=one.length, quoted=one.words)
        for query, one in zip(asked, found, strict=True)
        if one.length >= MIN_QUOTE
    ]
    rows = [query.relevant for query in asked]
    measured = shared(texts, rows, [source.content for source in labelled.documents])
    shares = [share for share in measured if share is not None]
    return QuoteCheck(
        n=len(asked),
        min_run=MIN_QUOTE,
        quoting=len(flagged),
        longest_run=max((one.length for one in found), default=None),
        shared_words=SharedWords(
            n=len(shares),
            mean=fmean(shares) if shares else None,
            median=median(shares) if shares else None,
            all_shared=sum(share > 1 - 1e-9 for share in shares),
        ),
        examples=flagged[:MAX_EXAMPLES],
    )


def splits(labelled: LabelledSet, embed: Embed | None, least: float | None) -> SplitCheck:
    """Finds what two splits have in common."""
    by_split: dict[str, list[LabelledQuery]] = {}
    for query in labelled.queries:
        if query.split is not None:
            by_split.setdefault(query.split, []).append(query)
    found = SplitCheck(
        queries={name: len(queries) for name, queries in sorted(by_split.items())},
        similarity=least,
        documents=[],
        proposed_documents=[],
        same_texts=[],
        similar_documents=None if embed is None else [],
        same_queries=[],
    )
    terms = Tokenizer()
    name = [source.id for source in labelled.documents]
    for both in map(list, combinations(sorted(by_split), 2)):
        sides = (by_split[both[0]], by_split[both[1]])
        gold = [sorted({row for query in side for row in query.relevant}) for side in sides]
        common = set(gold[0]) & set(gold[1])
        reached = [{row for q in side for row in (*q.relevant, *q.proposed)} for side in sides]
        proposed = (reached[0] & reached[1]) - common
        found.documents.extend(
            SplitDocument(splits=both, document=name[row]) for row in sorted(common)
        )
        found.proposed_documents.extend(
            SplitDocument(splits=both, document=name[row]) for row in sorted(proposed)
        )
        found.same_texts.extend(
            SplitDocuments(splits=both, documents=[name[a], name[b]])
            for a, b in _same(labelled, gold)
        )
        if embed is not None and least is not None and found.similar_documents is not None:
            found.similar_documents.extend(
                SplitDocuments(splits=both, documents=[name[a], name[b]], similarity=value)
                for a, b, value in _similar(labelled, gold, embed, least)
            )
        found.same_queries.extend(
            SplitQueries(splits=both, queries=[a.id, b.id], texts=[a.text, b.text])
            for a, b in _same_queries(sides, terms)
        )
    return found


def benchmarks(labelled: LabelledSet, against: Sequence[Benchmark]) -> list[Overlap]:
    """Counts, for each benchmark, the documents and queries of the set that it has too."""
    documents = TextIndex([source.content for source in labelled.documents])
    queries = TextIndex([query.text for query in labelled.queries])
    overlaps = []
    for one in against:
        of_documents = documents.within(one.documents())
        of_queries = queries.within(one.queries(), any_order=True)
        overlaps.append(
            Overlap(
                dataset=one.name,
                dataset_documents=one.n_documents,
                dataset_queries=one.n_queries,
                run_length=RUN_LENGTH,
                min_share=MIN_SHARE,
                same_documents=len(of_documents.exact),
                similar_documents=len(of_documents.near),
                same_queries=len(of_queries.exact),
                similar_queries=len(of_queries.near),
                document_examples=[
                    labelled.documents[row].id
                    for row in sorted({*of_documents.exact, *of_documents.near})[:MAX_EXAMPLES]
                ],
                query_examples=[
                    labelled.queries[row].id
                    for row in sorted({*of_queries.exact, *of_queries.near})[:MAX_EXAMPLES]
                ],
            )
        )
    return overlaps


def asking_the_same(queries: Sequence[GeneratedQuery]) -> list[list[int]]:
    """Groups queries of one haystack with the same content words; returns a document of each."""
    terms = Tokenizer()
    found: dict[tuple[object, ...], list[int]] = {}
    for query in queries:
        words = content_words(query.text, terms)
        if words:
            found.setdefault((query.haystack, words), []).append(query.golds[0])
    return [together for together in found.values() if len(together) > 1]


def _similar(
    labelled: LabelledSet, gold: list[list[int]], embed: Embed, least: float
) -> list[tuple[int, int, float]]:
    """Rows of the first split and others of the second that are similar, with the cosine."""
    if not all(gold):
        return []
    first, second = (embed([labelled.documents[row].content for row in rows]) for rows in gold)
    columns = (column.tolist() for column in pairs(first, second, least))
    found = ((gold[0][a], gold[1][b], value) for a, b, value in zip(*columns, strict=True))
    return [(a, b, value) for a, b, value in found if a != b and _meet(labelled, a, b)]


def _meet(labelled: LabelledSet, one: int, two: int) -> bool:
    """Whether two documents share a haystack; else they are no alternative to each other."""
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
    sides: tuple[list[LabelledQuery], list[LabelledQuery]], terms: Tokenizer
) -> list[tuple[LabelledQuery, LabelledQuery]]:
    """Queries of two splits with the same words, or the same content words in any order."""

    def words(query: LabelledQuery) -> tuple[object, ...]:
        # Queries to different haystacks ask different things in the same words.
        return (query.haystack, content_words(query.text, terms) or normalised(query.text))

    first: dict[tuple[object, ...], LabelledQuery] = {}
    for query in sides[0]:
        first.setdefault(words(query), query)
    return [(first[words(query)], query) for query in sides[1] if words(query) in first]
