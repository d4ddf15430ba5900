"""The records of leaderboard.json and its other files."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from harness.analysis.claims import Claim
from harness.io.html_table import html_table, with_interval
from harness.io.records import Record
from harness.records.run import (
    GitState,
    HitsRecord,
    ImportSource,
    IndexTimes,
    Machine,
    Params,
    PeakMemory,
    Percentiles,
    Usage,
)
from harness.records.scores import (
    AbstentionResult,
    AnsweredOnly,
    ChangesResult,
    KnowledgeUpdateResult,
    MetricResult,
    ReturnedStats,
    ScorableQueries,
    ScoredDataset,
    TokensResult,
)

BOARD_VERSION: Final = 1

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rank = Annotated[
    tuple[Positive, Positive],
    Meta(
        description="Best and worst rank. The ranges of all systems in this protocol, slice and "
        "metric hold their true ranks at once in 95% of samples, by paired differences. Absent "
        "where the system saw the gold labels, or lacks a query that another was measured on."
    ),
]
RankNote = Annotated[
    str, Meta(description="Why there is no rank, or that the clusters are too few for any order.")
]


class ScoringVersion(Record):
    """The software that computed the scores."""

    harness: str
    version: int


class RankedResult(MetricResult):
    """One metric over one slice, as in scores.json but without signature and macro means."""

    value: Share | None
    n: Positive
    unmeasurable: Count = 0
    rank: Rank | None = None
    rank_note: RankNote = ""


class ProtocolKey(Record):
    """Settings that must be equal for results in one column."""

    protocol: Annotated[str, Meta(pattern="^[a-z0-9-]+/[0-9]+$", description="Name and version.")]
    level: Annotated[str, Meta(description="A granularity, or turn>session.")]
    ties: Annotated[str, Meta(description="Order of equal scores.")]
    missing: Annotated[str, Meta(description="What a query without a ranking counts.")]

    @property
    def name(self) -> str:
        """The protocol without its version."""
        return self.protocol.partition("/")[0]


class BoardProtocol(ProtocolKey):
    """The results of one protocol: by slice and metric."""

    excluded: Annotated[dict[str, int], Meta(description="Queries in no mean, by reason.")]
    slices: dict[str, dict[str, RankedResult]]

    @property
    def key(self) -> ProtocolKey:
        """The protocol without its results."""
        return ProtocolKey(
            protocol=self.protocol, level=self.level, ties=self.ties, missing=self.missing
        )

    @property
    def overall(self) -> dict[str, RankedResult]:
        """The results over all queries, by metric."""
        return self.slices.get("all", {})


class EntryQueries(Record):
    """Queries that failed, have no results, or only texts that match no document."""

    failed: Count
    without_ranking: Count
    unmeasurable: Count


class EmbeddingCounts(Record):
    """Requested and computed embeddings; the others were cached."""

    texts_asked: int
    texts_embedded: int
    embedding_seconds: float


class EntryCost(Record):
    """Time, memory and cost of a run, as in its run.json."""

    index: IndexTimes | None
    ingestion: Usage | None
    searching: Usage | None
    search_ms: Percentiles | None
    peak_memory_bytes: PeakMemory | None
    embeddings: EmbeddingCounts | None


class Provenance(Record):
    """Origin of an entry, as in its run.json."""

    finished: str
    versions: dict[str, str] | None = None
    machine: Machine | None = None
    git: GitState | None = None
    files: Annotated[
        dict[str, str] | None, Meta(description="sha256 of the code files that were named.")
    ] = None
    imported_from: ImportSource | None = None
    submitted: Annotated[bool, Meta(description="Imported, and scored from its rankings.")] = False


class Entry(Record):
    """One run."""

    run: Annotated[str, Meta(description="Name of its folder.")]
    name: Annotated[str, Meta(description="As its user named it.")] = ""
    system: str
    version: str | None
    revision: Annotated[
        str | None, Meta(description="What fixes its model's weights or its code.")
    ] = None
    params: Params
    sees_gold_labels: bool
    submitted_by: Annotated[str | None, Meta(description="Who ran it.")]
    command: Annotated[str | None, Meta(description="The command that repeats it.")]
    queries: EntryQueries
    returned: ReturnedStats | None
    protocols: list[BoardProtocol]
    knowledge_update: KnowledgeUpdateResult | None
    changes: ChangesResult | None
    abstention: AbstentionResult | None
    tokens: TokensResult | None
    hits: Annotated[
        HitsRecord | None,
        Meta(description="Of texts that the system returned: how documents were found."),
    ]
    cost: EntryCost
    provenance: Provenance


class ShortResult(Record):
    """A result to six significant digits; the file of the board has all."""

    n: Positive
    value: Share | None = None
    low: Annotated[float | None, Meta(description="Of the 95% interval.")] = None
    high: float | None = None
    random_baseline: float | None = None
    rank: Rank | None = None
    rank_note: RankNote = ""
    answered_only: AnsweredOnly | None = None


class AnswersRow(Record):
    """Answers of one condition: a system, or a baseline."""

    folder: str
    system: str
    condition: Annotated[
        str,
        Meta(description="retrieved, own, imported; baselines: none, newest, random, evidence."),
    ]
    tokens: Annotated[float | None, Meta(description="Mean tokens of the context.")]
    judge_range: Annotated[
        list[float] | None,
        Meta(description="Least and largest accuracy, where several judges judged them."),
    ] = None
    usd: float | None
    failed: Count
    values: dict[str, ShortResult]
    error_classes: Annotated[
        dict[str, ShortResult], Meta(description="Shares of classes of errors.")
    ]


class AnswersGroup(Record):
    """Answers of one reader, graded by one judge; systems before baselines."""

    reader: str
    protocol: str
    metric: str
    rows: list[AnswersRow]


class Board(Record):
    """One board, with runs that compare.

    Runs that differ in dataset, fingerprint, granularity, text, split, depth, queries or version
    are on different boards.
    """

    schema_version: Literal[1]
    dataset: ScoredDataset
    depth: Annotated[Positive, Meta(description="How many documents a ranking could hold.")]
    queries: Annotated[
        ScorableQueries, Meta(description="Those that some protocol scores; digest of their ids.")
    ]
    scoring: ScoringVersion
    answers: Annotated[
        list[AnswersGroup], Meta(description="In leaderboard.json alone, as the claims.")
    ] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    entries: Annotated[list[Entry], Meta(min_length=1)]

    @property
    def runs(self) -> list[str]:
        """Folder names of the runs."""
        return [entry.run for entry in self.entries]

    def _repr_html_(self) -> str:
        """Returns the runs with their main results as a table, for notebooks."""
        protocol, names = board_headline(self.entries)
        rows = []
        for entry in self.entries:
            found = [one.overall for one in entry.protocols if protocol and one.key == protocol.key]
            results = [found[0].get(name) if found else None for name in names]
            first = results[0] if results else None
            rank = " to ".join(dict.fromkeys(map(str, first.rank))) if first and first.rank else "-"
            values = [with_interval(one.value, one.interval) if one else "-" for one in results]
            rows.append((first.value or 0 if first else -1, [rank, entry.run, *values]))
        rows.sort(key=lambda row: -row[0])
        title = (
            f"dataset={self.dataset.name}  granularity={self.dataset.granularity}; 95% intervals"
        )
        return html_table(title, ["rank", "run", *names], [row for _, row in rows])


class ShortCost(Record):
    """Milliseconds per query, and US dollars."""

    p50_ms: float | None
    p99_ms: float | None
    usd_ingestion: float | None
    usd_per_1000_queries: float | None


class ShortEntry(Record):
    """One run, with the headline metrics of its board."""

    run: Annotated[str, Meta(description="Name of its folder.")]
    label: Annotated[str, Meta(description="Its name, made different from others of its board.")]
    system: str
    version: str | None
    distinct_params: Annotated[
        Params, Meta(description="Those that differ between entries of this system.")
    ]
    submitted_by: Annotated[str | None, Meta(description="Who ran it.")]
    sees_gold_labels: bool
    submitted: bool
    finished: str
    failed: Annotated[Count, Meta(description="Queries that raised an error; they count 0.")]
    values: Annotated[
        dict[str, dict[str, ShortResult]],
        Meta(description="By slice and metric: all metrics over all, the first by ability."),
    ]
    cost: ShortCost


class ShortBoard(Record):
    """The summary of a board."""

    id: Annotated[str, Meta(description="The same while what compares on it is the same.")]
    title: str
    file: Annotated[str, Meta(description="The file of the board, from here.")]
    pairs: Annotated[
        str | None, Meta(description="The file of its pairs; null where no two systems compare.")
    ]
    dataset: ScoredDataset
    depth: Positive
    queries: ScorableQueries
    scoring: ScoringVersion
    protocol: Annotated[ProtocolKey | None, Meta(description="The protocol of the values.")]
    metrics: Annotated[list[str], Meta(description="The first one orders the entries.")]
    answers: list[AnswersGroup] = field(default_factory=list)
    claims: Annotated[
        list[Claim], Meta(description="Claims of authors about their systems; never ranked.")
    ] = field(default_factory=list)
    entries: Annotated[list[ShortEntry], Meta(min_length=1)]


class Leaderboard(Record):
    """A summary of boards; the rest is in the files that it names."""

    schema_version: Literal[1]
    boards: Annotated[list[ShortBoard], Meta(min_length=1)]


class PairColumns(Record):
    """One metric over one slice: lists with one entry per pair of runs (0 and 1, 0 and 2, ...).

    `difference` is the mean of the later run minus that of the earlier one, over common queries;
    interval and p are of the pair alone. `ordered`: whether the ranks show an order of the two;
    None if one lacks queries of others.
    """

    difference: list[float | None]
    low: list[float | None]
    high: list[float | None]
    p: list[float | None]
    wins: list[int]
    losses: list[int]
    ties: list[int]
    ordered: list[bool | None]


class PairedTests(Record):
    """All pairs of systems of a board, compared query by query."""

    schema_version: Literal[1]
    protocol: str
    level: str
    cluster_by: Literal["queries", "haystacks"]
    runs: Annotated[list[str], Meta(min_length=2, description="In order of time.")]
    metrics: list[str]
    slices: list[str]
    results: Annotated[dict[str, dict[str, PairColumns]], Meta(description="By slice and metric.")]


_METRICS = {
    "memory": ("recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
    "trec": ("ndcg@10", "mrr@10", "recall@100", "map@100"),
}


def headline(entry: Entry) -> tuple[BoardProtocol | None, list[str]]:
    """Returns the headline protocol and metrics of an entry; the first metric orders the board.

    The protocol is `memory` for several abilities, else `trec`; None if neither has a number.
    """
    from harness.scoring.scores import main_metrics

    protocols = {one.name: one for one in reversed(entry.protocols)}
    several = "memory" in protocols and len(protocols["memory"].slices) > 3
    for name in ("memory", "trec") if several else ("trec", "memory"):
        if name in protocols and (overall := protocols[name].overall):
            shown = [metric for metric in _METRICS[name] if metric in overall]
            # The haystacks may hold fewer documents than the usual cut-offs.
            shown = shown or main_metrics(overall, main=_METRICS[name]) or list(overall)[:4]
            return protocols[name], shown
    return None, []


def board_headline(entries: list[Entry]) -> tuple[BoardProtocol | None, list[str]]:
    """Returns the headline protocol and metrics of the first entry with any."""
    return next((found for entry in entries if (found := headline(entry))[0]), (None, []))
