"""Types of run.json, of its parts that other records share, and of a checkpoint's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from harness.errors import UsageError
from harness.io.records import ChecksummedRecord, Record, convert

PlainValue = None | bool | int | float | str | list[Any] | dict[str, Any]
"""A parameter of a retriever, as JSON or TOML has it."""

Params = dict[str, PlainValue]
"""Parameters of a retriever by name."""


class DatasetRef(Record):
    """The dataset of a run: name, configuration and content.

    `fingerprint` is the sha256 of the prepared content. `published_files`: whether every raw file
    is the publisher's; None for the user's own files. `counts`: documents, haystacks, queries and
    judgements. `licence`: the publisher's.
    """

    name: str
    granularity: str
    text: str
    split: str
    fingerprint: str
    published_files: bool | None = None
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    licence: str = ""


class RetrieverRecord(Record):
    """The system of a run: `params` including defaults, and the sha256 of its source `files`.

    `files` are the user's Python files that define it, with their imports. `version`: of the class
    or its package. `revision`: of the model, or digests of the files and code that a command names.
    `ids`: whether it returns document handles or the dataset's ids. `sees_gold_labels` is true only
    for the oracle.
    """

    name: str
    params: Params = msgspec.field(default_factory=dict)
    version: str | None = None
    revision: str | None = None
    files: dict[str, str] = msgspec.field(default_factory=dict)
    ids: Literal["handles", "dataset"] | None = None
    sees_gold_labels: bool = False


class ClusterRecord(Record):
    """The cluster of a run: the engine with its version, its size, and shards of one haystack."""

    engine: str
    nodes: int
    shards: int | None = None


class RunSettings(Record):
    """Settings of a run; imported runs have `k` alone. Limits and prices only where given.

    `sandbox`: the program that isolates the retriever, with its version.
    """

    k: int
    limit: int | None = None
    seed: int | None = None
    workers: int | None = None
    batch_size: int | None = None
    concurrency: int | None = None
    query_timeout: float | None = None
    index_timeout: float | None = None
    retries: int | None = None
    prices: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    sandbox: str | None = None
    cluster: ClusterRecord | None = None


class QueryCounts(Record):
    """Counts of a run's queries: `answered` without an error, `failed`, `abstained`."""

    asked: int
    answered: int
    failed: int
    abstained: int


class EmptyHaystacks(Record):
    """Haystacks in which every query got an empty result: `n` of `total`, and examples; `scripts`
    of queries and of documents, if no query shares a term with a document."""

    n: int
    total: int
    queries: int
    examples: list[str]
    scripts: tuple[str, str] | None = None


class RunNotes(Record):
    """Counts of corrections to the system's answers.

    `documents_beyond_k`, `duplicate_documents` and `padding` (-1 for no document) were removed;
    `scores_dropped` answers lost their scores, as others had none. `self_excluded`: the query's own
    document is removed from its ranking.
    """

    documents_beyond_k: int = 0
    duplicate_documents: int = 0
    padding: int = 0
    scores_dropped: int = 0
    self_excluded: bool = False


class MatchingRecord(Record):
    """Thresholds of text matching: token F1, and cosine similarity or None."""

    f1: float
    semantic: float | None = None


class HitsRecord(Record):
    """Returned texts, and how they were resolved to documents.

    `by_method` counts resolved texts. `matched_by_text`: resolved texts without sources.
    `unknown_sources`: sources that are not in the haystack. `token_f1_at_least`: texts that would
    match at other thresholds. `unmeasurable_queries` have no resolved text and are excluded from
    means. `documents_beyond_k`: removed, of texts with several documents.
    """

    returned: int
    resolved: int
    by_method: dict[str, int]
    unknown_sources: int
    matched_by_text: int
    token_f1_at_least: dict[str, int]
    unmeasurable_queries: int
    documents_beyond_k: int
    matching: MatchingRecord


class Retried(Record):
    """Queries that were asked again after a failure, those then answered, and all failures."""

    queries: int
    answered: int
    failures: int


class Percentiles(Record):
    """Mean and percentiles of durations."""

    mean: float
    p50: float
    p95: float
    p99: float


class PhaseSeconds(Record):
    """Seconds of opening the dataset (and preparing it, where needed), and of the run."""

    prepare: float | None = None
    run: float | None = None


class IndexTimes(Record):
    """Times of indexing; `builds` exceeds `haystacks` where several processes indexed one."""

    haystacks: int
    builds: int
    documents: int
    seconds: float
    haystack_ms: Percentiles


class Usage(Record):
    """Calls and tokens that a system reported, in total and by model; None where unknown.

    `usd` is reported by the system, or computed from prices.
    """

    calls: int | float | None = None
    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None
    embedded_tokens: int | float | None = None
    calls_without_usage: int | float | None = None
    usd: float | None = None
    usd_per_1000_queries: float | None = None
    models: dict[str, dict[str, int | float]] = msgspec.field(default_factory=dict)


class PeakMemory(Record):
    """Largest resident sizes, in bytes."""

    process: int
    largest_worker: int | None = None


class Measured(Record):
    """Times, usage and memory of a run; None if not measured."""

    seconds: PhaseSeconds = PhaseSeconds()
    index: IndexTimes | None = None
    ingestion: Usage | None = None
    searching: Usage | None = None
    search_ms: Percentiles | None = None
    peak_memory_bytes: PeakMemory | None = None


class EmbedderReport(Record, forbid_unknown_fields=False):
    """What an embedder reports of itself: texts, times, and approximate search where it is used.

    `recall_of_exact`: the share of the documents of exact search that `search` found, over
    `checked_questions`.
    """

    texts_asked: int
    texts_embedded: int = 0
    embedding_seconds: float = 0
    cache_bytes: int = 0
    search: str = ""
    build_seconds: float = 0
    checked_questions: int = 0
    recall_of_exact: float = 0


class Machine(Record):
    """System, processor and number of cores; no host name."""

    system: str
    processor: str
    cores: int | None = None


class GitState(Record):
    """Commit of the working folder, and whether it had changes."""

    commit: str
    changed: bool


class ImportedFile(Record, tag="rankings", tag_field="kind"):
    """A run file that another system wrote; `asked` of `queries`, where it names those asked.

    `score_column`: the column of the scores, where it was named. `notes`: irregularities found.
    """

    file: str
    sha256: str
    notes: list[str] = msgspec.field(default_factory=list)
    asked: int | None = None
    queries: int | None = None
    score_column: str = ""


class PublishedFile(Record, tag="published", tag_field="kind"):
    """A file of published rankings: its format, the ranking that was imported, and its records.

    `cut`: documents imported from each ranking; None: all. Of its `records`, `broken` are
    unreadable, `unknown` match no query, `ambiguous` match several, `silent` contain no document
    (and count 0), `duplicates` repeat a query (`repeats`: which of them counts), and `conflicts`
    are duplicates with a different ranking. The file covers `asked` of `queries`, in
    `haystacks_asked` of `haystacks`.
    """

    file: str
    sha256: str
    format: str
    ranking: str
    repeats: str
    records: int
    broken: int
    unknown: int
    ambiguous: int
    silent: int
    duplicates: int
    conflicts: int
    asked: int
    queries: int
    haystacks_asked: int
    haystacks: int
    cut: int | None = None
    url: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)


@dataclass
class LogCounts:
    """Counts of log lines, by kind.

    `other`: lines that `where` skips, and spans that are not retrievals. `unreadable`: lines with
    invalid JSON or a wrong value; `first_error` describes the first one. `without_result`:
    requests without a list of results. `torn`: incomplete last lines of a file that is still
    being written, which is not an error.
    """

    requests: int = 0
    feedback: int = 0
    other: int = 0
    unreadable: int = 0
    without_result: int = 0
    torn: int = 0
    first_error: str = ""

    @property
    def first_error_location(self) -> str:
        """File and line of the first line that cannot be read, without its content."""
        return self.first_error.partition(": ")[0]


@dataclass
class JoinCounts:
    """Counts of how requests joined labelled queries."""

    by_id: int = 0
    by_text: int = 0
    unlabelled: int = 0
    ambiguous_text: int = 0
    repeated: int = 0


class ImportedLog(Record, tag="log", tag_field="kind"):
    """A log of requests: how its lines were read and joined; `asked` of `labelled` queries.

    `files`: the sha256 of each. `mapping`: the paths of the fields. `repeats`: which of several
    requests of a query counts.
    """

    files: dict[str, str]
    sha256: str
    mapping: Params
    repeats: str
    lines: LogCounts
    joined: JoinCounts
    feedback_to_unknown_requests: int
    labelled: int
    asked: int
    notes: list[str] = msgspec.field(default_factory=list)


ImportSource = ImportedFile | PublishedFile | ImportedLog
"""Where rankings come from that the harness did not compute."""


class RunRecord(ChecksummedRecord):
    """run.json: the dataset, the system, its settings, and measurements of the run.

    `finished` is in UTC. `command` repeats the run. `imported_from` is set for rankings that the
    harness did not compute, `submitted` for those that a leaderboard accepted. `resumed_queries`
    were answered before an interruption. `cut_off_attempts` ended during a step; the cost of that
    step is missing from `measured`. `cached_haystacks` were indexed by an earlier run, which has
    their times. `reported` holds the system's own report, one item per process (per haystack with
    `--isolate`). `versions`: of the harness, Python and packages that affect numbers. `run` names
    the original folder of an archived copy.
    """

    run_version: Literal[1]
    finished: str
    dataset: DatasetRef
    retriever: RetrieverRecord
    settings: RunSettings
    queries: QueryCounts
    name: str | None = None
    submitted_by: str | None = None
    submitted: bool = False
    command: str | None = None
    imported_from: ImportSource | None = None
    resumed_queries: int = 0
    cut_off_attempts: int = 0
    retried: Retried | None = None
    cached_haystacks: int = 0
    empty_haystacks: EmptyHaystacks | None = None
    notes: RunNotes = RunNotes()
    hits: HitsRecord | None = None
    measured: Measured | None = None
    reported: list[PlainValue] = msgspec.field(default_factory=list)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    machine: Machine | None = None
    git: GitState | None = None
    run: str | None = None

    @property
    def executed(self) -> bool:
        """Whether the harness ran the system, rather than import its rankings."""
        return self.measured is not None and self.imported_from is None

    @property
    def title(self) -> str:
        """The name of the run in tables and pages: its own, else its system's."""
        return self.name or self.retriever.name


class RunPlan(Record):
    """Everything that decides the results of a run: the same plan gives the same rankings.

    `limit` is None where it leaves no query out. `environment`: digests of values that parameters
    take from environment variables.
    """

    dataset: str
    retriever: RetrieverRecord
    k: int
    seed: int
    queries: int
    limit: int | None = None
    isolate: bool = False
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    matching: MatchingRecord | None = None


class RunStart(Record):
    """What lists of runs show of a run that is not finished."""

    dataset: str
    granularity: str
    system: str
    started: str
    name: str | None = None


def embedder_reports(reported: PlainValue) -> list[EmbedderReport]:
    """Finds the reports of embedders at any depth: a retriever's holds those of its parts.

    A retriever reports what it likes, so what only looks like one is none.
    """
    if isinstance(reported, dict):
        if "texts_asked" in reported:
            try:
                return [convert(reported, EmbedderReport, "reported")]
            except UsageError:
                return []
        reported = list(reported.values())
    if not isinstance(reported, list):
        return []
    return [found for one in reported for found in embedder_reports(one)]
