"""The records of leaderboard.json and of the files beside it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from harness.records.base import Record
from harness.records.run import (
    GitState,
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
    Interval,
    KnowledgeUpdateResult,
    ReturnedStats,
    ScoredDataset,
    TieRange,
    TokensResult,
)

BOARD_VERSION = 1

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
ProtocolVersion = Annotated[
    str, Meta(pattern="^[a-z0-9-]+/[0-9]+$", description="Name and version.")
]
Rank = Annotated[
    tuple[Positive, Positive],
    Meta(
        description="Best and worst rank. The ranges of all systems in this protocol, slice and "
        "metric hold their true ranks at once in 95% of samples, by paired differences. Absent "
        "where the system was shown the answer key, or lacks a query that another was measured on."
    ),
]
RankNote = Annotated[
    str, Meta(description="Why there is no rank, or that the clusters are too few for any order.")
]
NoSignature = Annotated[Literal[""], Meta(description="Only in scores.json.")]


class ScorableQuerySet(Record):
    """The queries that a board is over; `digest` is of their ids."""

    asked: Positive
    digest: str


class ScoringVersion(Record):
    """What computed the scores."""

    harness: str
    version: int


class BoardResult(Record):
    """One metric over one slice, as in scores.json but without signature and macro means."""

    value: Share | None
    n: Positive
    interval: Interval | None = None
    random_baseline: float | None = None
    random_method: str = ""
    upper_bound: float | None = None
    upper_bound_method: str = ""
    ties: TieRange | None = None
    answered_only: AnsweredOnly | None = None
    unmeasurable: Count = 0
    rank: Rank | None = None
    rank_note: RankNote = ""


class BoardProtocol(Record):
    """The results of one protocol: by slice and metric."""

    protocol: ProtocolVersion
    level: Annotated[str, Meta(description="A granularity, or turn>session.")]
    ties: Annotated[str, Meta(description="Order of equal scores.")]
    missing: Annotated[str | None, Meta(description="What a query without a ranking counts.")]
    excluded: Annotated[dict[str, int], Meta(description="Queries in no mean, by reason.")]
    slices: dict[str, dict[str, BoardResult]]


class QueryCounts(Record):
    """Queries that failed, got nothing, or got texts of which none could be resolved."""

    failed: Count
    without_ranking: Count
    unmeasurable: Count


class EntryCost(Record):
    """What a run took, as in its run.json."""

    index: IndexTimes | None
    ingestion: Usage | None
    searching: Usage | None
    search_ms: Percentiles | None
    peak_memory_bytes: PeakMemory | None
    embeddings: Annotated[
        dict[str, float] | None,
        Meta(description="Texts asked for and embedded; the others came from the cache."),
    ]


class Provenance(Record):
    """Where an entry comes from, as in its run.json."""

    finished: str
    versions: dict[str, str] | None = None
    machine: Machine | None = None
    git: GitState | None = None
    files: Annotated[
        dict[str, str] | None, Meta(description="sha256 of the code files that were named.")
    ] = None
    imported_from: ImportSource | None = None
    submitted: Annotated[
        bool, Meta(description="Taken in from elsewhere and scored here from its rankings.")
    ] = False


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
    queries: QueryCounts
    returned: ReturnedStats | None
    protocols: list[BoardProtocol]
    knowledge_update: UnsignedKnowledgeUpdate | None
    changes: UnsignedChanges | None
    abstention: UnsignedAbstention | None
    tokens: UnsignedTokens | None
    hits: Annotated[
        dict[str, Any] | None,
        Meta(description="Of texts that the system returned: how documents were found."),
    ]
    cost: EntryCost
    provenance: Provenance


class UnsignedKnowledgeUpdate(KnowledgeUpdateResult):
    """As in scores.json, without the signature."""

    signature: NoSignature = ""


class UnsignedChanges(ChangesResult):
    """As in scores.json, without the signature."""

    signature: NoSignature = ""


class UnsignedAbstention(AbstentionResult):
    """As in scores.json, without the signature."""

    signature: NoSignature = ""


class UnsignedTokens(TokensResult):
    """As in scores.json, without the signature."""

    random_method: str = ""
    signature: NoSignature = ""


class Board(Record):
    """Everything of one board: runs that compare.

    Runs that differ in dataset, fingerprint, granularity, text, split, depth, queries or version
    are on different boards.
    """

    schema_version: Literal[1]
    dataset: ScoredDataset
    depth: Annotated[Positive, Meta(description="How many documents a ranking could hold.")]
    queries: ScorableQuerySet
    scoring: ScoringVersion
    entries: Annotated[list[Entry], Meta(min_length=1)]


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


class ShortCost(Record):
    """Milliseconds of a query, and US dollars."""

    p50_ms: float | None
    p99_ms: float | None
    usd_ingestion: float | None
    usd_per_1000_queries: float | None


class ShortEntry(Record):
    """One run, with the metrics that its board is shown by."""

    run: Annotated[str, Meta(description="Name of its folder.")]
    label: Annotated[str, Meta(description="Its name, made different from others of its board.")]
    system: str
    version: str | None
    params: Annotated[
        dict[str, Any], Meta(description="Those that differ between entries of this system.")
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


class ShownProtocol(Record):
    """The protocol of the values."""

    protocol: ProtocolVersion
    level: str
    ties: str
    missing: str | None


class AnswersRow(Record):
    """Answers of one condition: a system, or a baseline."""

    folder: str
    system: str
    arm: Annotated[
        str,
        Meta(description="retrieved, own, imported; baselines: none, newest, random, evidence."),
    ]
    tokens: Annotated[float | None, Meta(description="Mean tokens of the context.")]
    over_judges: Annotated[
        list[float] | None,
        Meta(description="Least and largest accuracy, where several judges judged them."),
    ] = None
    usd: float | None
    failed: Count
    values: dict[str, ShortResult]
    losses: Annotated[dict[str, ShortResult], Meta(description="Shares of error classes.")]


class AnswersGroup(Record):
    """Answers of one reader as one judge graded them, systems before baselines."""

    reader: str
    protocol: str
    metric: str
    rows: list[AnswersRow]


class MeasuredHere(Record):
    """What a claim's published rankings score here."""

    system: str
    value: Share
    n: Positive
    signature: Text


class BoardClaim(Record):
    """What authors say of a system; never ranked."""

    system: str
    version: str | None = None
    measure: str
    value: float
    n: int | None = None
    protocol: str
    compares: bool
    why: str
    source: str
    date: str | None = None
    reproducible: bool | str
    ours: MeasuredHere | None = None


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
    queries: ScorableQuerySet
    scoring: ScoringVersion
    protocol: ShownProtocol | None
    metrics: Annotated[list[str], Meta(description="The first one orders the entries.")]
    answers: list[AnswersGroup] = field(default_factory=list)
    claims: list[BoardClaim] = field(default_factory=list)
    entries: Annotated[list[ShortEntry], Meta(min_length=1)]


class Leaderboard(Record):
    """A summary of boards; all else is in the files that it names, beside it."""

    schema_version: Literal[1]
    boards: Annotated[list[ShortBoard], Meta(min_length=1)]


class PairColumns(Record):
    """One metric over one slice: lists with one entry a pair of runs (0 and 1, 0 and 2, ...).

    `difference` is of the means over the queries that both have, the later run less the earlier;
    interval and p are of the pair alone. `shown`: whether the ranks show an order of the two.
    """

    difference: list[float | None]
    low: list[float | None]
    high: list[float | None]
    p: list[float | None]
    won: list[int]
    lost: list[int]
    tied: list[int]
    shown: list[bool | None]


class Pairs(Record):
    """Every two systems of a board, compared query by query."""

    schema: Literal["harness.pairs/1"]
    protocol: ProtocolVersion
    level: str
    cluster_by: Literal["queries", "haystacks"]
    runs: Annotated[list[str], Meta(min_length=2, description="In order of time.")]
    metrics: list[str]
    slices: list[str]
    cells: Annotated[dict[str, dict[str, PairColumns]], Meta(description="By slice and metric.")]
