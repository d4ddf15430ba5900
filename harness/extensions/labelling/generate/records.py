"""Records of leakage.json, and of what `harness label generate` and `check` print as JSON."""

from __future__ import annotations

import msgspec

from harness.io.records import Record
from harness.records.output import Output

# -- Leakage checks --------------------------------------------------------------------------------


class Quotation(Record):
    """A query that quotes its document, with the words that they share in a row."""

    query: str
    text: str
    run_length: int
    quoted: str


class QuoteCheck(Record):
    """Queries that quote a relevant document, of `n` with one; `min_run` words make a quotation.

    `shared_words` is the mean share of a query's words that its document has, by rarity, over
    `shared_words_n` queries.
    """

    n: int
    min_run: int
    quoting: int
    shared_words: float | None
    shared_words_n: int
    examples: list[Quotation]


class SplitFinding(Record):
    """The ids of a document, of two documents or of two queries that are in two splits."""

    splits: list[str]
    ids: list[str]


class SplitCheck(Record):
    """What two splits have in common: documents, equal texts, and queries that ask the same.

    `proposed_documents` would be in two splits if a person accepted them. `queries` counts those of
    each split.
    """

    queries: dict[str, int]
    documents: list[SplitFinding]
    proposed_documents: list[SplitFinding]
    same_texts: list[SplitFinding]
    same_queries: list[SplitFinding]


class BenchmarkOverlap(Record):
    """How many documents and queries of a set a public benchmark has too, with examples."""

    dataset: str
    dataset_documents: int
    dataset_queries: int
    same_documents: int
    similar_documents: int
    same_queries: int
    similar_queries: int
    document_examples: list[str]
    query_examples: list[str]


class LeakageReport(Record):
    """leakage.json: what the three checks found; `leaks` counts the findings that are leaks."""

    quotes: QuoteCheck
    splits: SplitCheck
    benchmarks: list[BenchmarkOverlap]
    leaks: int


# -- harness label generate ------------------------------------------------------------------------


class EndpointUsage(Record):
    """What a language model was asked, and what that cost."""

    endpoint: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    calls_without_usage: int = 0
    usd: float | None = None
    cached_answers: int
    refused: list[str] = msgspec.field(default_factory=list)


class LeakageOutput(Output, LeakageReport, tag="harness.label-check/1"):
    """Output of `harness label check`."""


class GenerateReport(Output, tag="harness.label-generate/1"):
    """Output of `harness label generate`.

    `proposals` counts unjudged candidates, `excluded` documents and queries by reason.
    """

    folder: str
    documents: int
    empty: int
    queries: int
    new_queries: int
    requested: int
    multi_document_queries: int
    proposals: int
    proposals_by_reason: dict[str, int]
    largest_group: int
    excluded: dict[str, int]
    endpoint: EndpointUsage | None
    leakage: LeakageReport
