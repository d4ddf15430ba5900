"""Records of the JSON output of `harness label`, and of files in an exported dataset."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.extensions.labelling.project import GenerationSettings, PooledSystem, SourceFile
from harness.io.records import Output, Record
from harness.records.answers import ClientUsage


class AgreementMeasure(Record):
    """A measure of agreement on a variable (`grades`, `relevant or not`, ...) between annotators.

    Values that are not measurable are null; intervals are 95% intervals. `n` counts what two or
    more annotators judged, over `queries`.
    """

    variable: str
    measure: str
    annotators: list[str]
    value: float | None
    low: float | None
    high: float | None
    n: int
    queries: int
    note: str


class Added(Record):
    """What `harness label start` added to a project."""

    documents: int = 0
    queries: int = 0
    systems: int = 0
    depth: int = 0
    candidates: int = 0


class StartReport(Output, tag="harness.label-start/1"):
    """Output of `harness label start`."""

    folder: str
    new: bool
    queries: int
    candidates: int
    depth: int
    systems: list[str]
    added: Added


class AnswersReport(Output, tag="harness.label-answers/1"):
    """Output of `harness label answers`; `added` counts queries."""

    folder: str
    queries: int
    candidates: int
    added: int


class PageAddress(Output, tag="harness.label-open/1"):
    """Output of `harness label open` and `adjudicate`: the address of the page."""

    address: str
    annotator: str


class TasksReport(Output, tag="harness.label-tasks/1"):
    """Output of `harness label export --format label-studio`."""

    folder: str
    tasks: int


class ImportReport(Output, tag="harness.label-import/1"):
    """Output of `harness label import`: new annotations by annotator, and cancelled ones."""

    folder: str
    added: dict[str, int]
    cancelled: int


# -- harness label status --------------------------------------------------------------------------


class AnnotatorStatus(Record):
    """What an annotator has judged, and what remains."""

    name: str
    grades: int
    remaining: int
    queries: int
    queries_remaining: int
    unanswerable: int
    rejected: int
    abilities: int
    notes: int


class ConflictStatus(Record):
    """Open conflicts by kind, those on grades, and the number of resolved ones."""

    open: dict[str, int]
    resolved: int
    grades: int


class ProgressCounts(Record):
    """Queries by state; `unanswerable_unconfirmed` are unanswerable only by the query file."""

    scorable: int
    without_relevant: int
    unanswerable: int
    unanswerable_unconfirmed: int
    rejected: int
    unfinished: int


class SystemStatus(Record):
    """Score of a pooled system so far, over `clusters` (haystacks if clustered, else queries).

    `judged` is the mean share of judged documents among its top documents, over all queries that it
    answered; `required` clusters reach the target half-width, null if the spread is unknown.
    """

    system: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    note: str
    judged: float | None
    required: int | None
    clusters: int
    clustered: bool


class ScoreStatus(Record):
    """Scores of the systems on the `n` scorable queries."""

    metric: str
    target_half_width: float
    n: int
    systems: list[SystemStatus]


class StatusReport(Output, tag="harness.label-status/1"):
    """Output of `harness label status`; `scores` is null if no system is pooled.

    `unreviewed` counts generated queries with a document that no person judged. Open conflicts on
    grades count as the lower grade in the scores.
    """

    folder: str
    target: str
    next_command: str
    documents: int
    queries: int
    candidates: int
    without_candidates: int
    depth: int
    systems: list[str]
    overlap: float
    shared_queries: int
    annotators: list[AnnotatorStatus]
    unreviewed: int
    agreement: list[AgreementMeasure]
    conflicts: ConflictStatus
    progress: ProgressCounts
    scores: ScoreStatus | None


# -- labelling.json, harness label export ----------------------------------------------------------


class PoolSummary(Record):
    """The pool of an exported project."""

    depth: int
    seed: int
    systems: list[PooledSystem]
    candidates: int


class AnnotatorSummary(Record):
    """What an annotator contributed to an exported dataset."""

    name: str
    grades: int
    unanswerable: int


class ConflictSummary(Record):
    """Conflicts of an exported project, and the policy for the open ones."""

    total: int
    resolved: int
    open: int
    policy: Literal["refuse", "lower", "higher"]


class ExportCounts(Record):
    """Counts of an exported dataset.

    `unreviewed`: generated queries with a document that no person judged and a grade by
    construction; `lowered_to_0`: relevant grades of unanswerable queries; `unfinished`: exported
    unfinished queries; `excluded`: unfinished queries that were not exported; `rejected`: also
    excluded; `edited`: queries whose text an annotator changed."""

    documents: int
    queries: int
    judgements: int
    grades: dict[str, int]
    judged_by_two_or_more: int
    unreviewed: int
    abilities: dict[str, int]
    ability_unknown: int
    without_relevant: int
    unanswerable: int
    unanswerable_unconfirmed: int
    unfinished: int
    excluded: int
    rejected: int
    edited: int
    lowered_to_0: int


class ExportManifest(Record):
    """labelling.json: how an exported dataset was created."""

    exported_at: str
    harness: str
    project: str
    relevance_level: int
    sources: list[SourceFile]
    generated: GenerationSettings | None
    pool: PoolSummary
    annotators: list[AnnotatorSummary]
    agreement: list[AgreementMeasure]
    conflicts: ConflictSummary
    counts: ExportCounts
    annotation_files: dict[str, str]
    splits: dict[str, int] | None


class ExportReport(Output, tag="harness.label-export/1"):
    """Output of `harness label export`."""

    folder: str
    counts: ExportCounts


# -- Leakage checks --------------------------------------------------------------------------------


class Quotation(Record):
    """A query that quotes its document, with the consecutive words that they share."""

    query: str
    text: str
    run_length: int
    quoted: str


class QuoteCheck(Record):
    """Queries that quote a relevant document, of `n` with one; `min_run` words make a quotation.

    `with_answer` queries, of `with_answer_n` with an answer, contain its words. `shared_words` is
    the mean share of a query's words, by rarity, in its document, over `shared_words_n` queries.
    """

    n: int
    min_run: int
    quoting: int
    shared_words: float | None
    shared_words_n: int
    examples: list[Quotation]
    with_answer: int
    with_answer_n: int
    with_answer_examples: list[str]


class SplitFinding(Record):
    """The ids of a document, of two documents or of two queries that are in two splits."""

    splits: list[str]
    ids: list[str]


class SplitCheck(Record):
    """Overlap of two splits: documents, equal texts, and queries that ask the same.

    `queries` counts those of each split.
    """

    queries: dict[str, int]
    documents: list[SplitFinding]
    same_texts: list[SplitFinding]
    same_queries: list[SplitFinding]


class BenchmarkOverlap(Record):
    """Number of documents and queries of a set that are also in a public benchmark."""

    dataset: str
    dataset_documents: int
    dataset_queries: int
    same_documents: int
    similar_documents: int
    same_queries: int
    similar_queries: int


class LeakageReport(Record):
    """leakage.json: the findings of the three checks; `leaks` counts those that are leaks."""

    quotes: QuoteCheck
    splits: SplitCheck
    benchmarks: list[BenchmarkOverlap]
    leaks: int


# -- harness label generate ------------------------------------------------------------------------


class EndpointUsage(ClientUsage):
    """Calls to a language model, and their cost."""

    endpoint: str
    model: str
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
    proposals: int
    proposals_by_reason: dict[str, int]
    largest_group: int
    excluded: dict[str, int]
    endpoint: EndpointUsage | None
    leakage: LeakageReport
