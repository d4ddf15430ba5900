"""Records of the JSON that the scripts of the pages read: reports, comparisons, boards.

A report and a comparison hold records with every field (`harness.io.records.to_tree`). Parallel
lists have one entry a query, document or cut-off. A text is its position in `ReportQueries.texts`,
-1 for none.
"""

from __future__ import annotations

from msgspec import field

from harness.analysis.board.records import AnswersGroup, Entry, ProtocolKey, ScoringVersion
from harness.analysis.claims import Claim
from harness.io.records import Record
from harness.records.run import Params
from harness.records.scores import (
    AbstentionResult,
    ChangesResult,
    KnowledgeUpdateResult,
    MetricResult,
    ScorableQueries,
    ScoredDataset,
)


class SettingRow(Record):
    """A setting that is not the same in all runs, and its value in each."""

    setting: str
    values: list[str]


class PairResult(Record):
    """Run `b` minus run `a` (positions) in one metric over one slice; p is corrected for `tests`
    tests."""

    a: int
    b: int
    difference: float
    low: float
    high: float
    p: float
    shown: bool
    detectable: float
    effect_size: float
    wins: int
    losses: int
    ties: int
    tests: int


# -- The server ------------------------------------------------------------------------------------


class RunProgress(Record):
    """An unfinished run: its state with the reason, and its progress."""

    run: str
    name: str
    about: str
    state: str
    reason: str
    started: str
    queries: int
    done: int
    failed: int
    idle_seconds: int


class ResultsState(Record):
    """state.json: the version of the finished runs, and the others."""

    version: str
    unfinished: list[RunProgress]
    history: bool


# -- Comparisons -----------------------------------------------------------------------------------


class ComparedRun(Record):
    """A run of a comparison: its folder, and the parameters that others of its system lack."""

    run: str
    name: str
    distinct_params: Params
    finished: str


class Mean(Record):
    """The mean of one run with its 95% interval."""

    value: float
    low: float
    high: float


class ComparedMetric(Record):
    """One metric over one slice of `n` queries: each run's mean, and every pair of runs."""

    n: int
    means: list[Mean]
    pairs: list[PairResult]


class ComparisonData(Record):
    """A comparison of runs; `clusters` independent units (`cluster_by`) were observed."""

    harness: str
    dataset: str
    protocol: str
    level: str
    clusters: int
    cluster_by: str
    runs: list[ComparedRun]
    settings: list[SettingRow]
    slices: list[str]
    metrics: list[str]
    results: dict[str, dict[str, ComparedMetric]]
    footnotes: list[str]
    command: str


# -- Reports: runs and protocols -------------------------------------------------------------------


class ReportRun(Record):
    """A run: its system, the status of its queries, and the sections of its scores."""

    name: str
    system: str
    retriever: str
    version: str | None
    revision: str | None
    params: Params
    sees_gold_labels: bool
    finished: str
    submitted_by: str | None
    failed: int
    without_ranking: int
    depth_message: str
    knowledge_update: KnowledgeUpdateResult | None
    changes: ChangesResult | None
    abstention: AbstentionResult | None
    warnings: list[str]


class ReportSlice(Record):
    """A slice and the number of its queries."""

    name: str
    n: int


class ReportProtocol(Record):
    """One protocol: results of each run by slice and metric, and differences of the pair of runs.

    `excluded` has each run's excluded queries by reason, `dropped` the number of queries for which
    the other run has no value.
    """

    protocol: str
    level: str
    description: str
    excluded: list[dict[str, int]]
    metrics: list[str]
    main_metrics: list[str]
    lead: str
    slices: list[ReportSlice]
    results: list[dict[str, dict[str, MetricResult]]]
    pairs: dict[str, dict[str, PairResult]]
    dropped: list[int]


# -- Reports: curves -------------------------------------------------------------------------------


class Curve(Record):
    """Means with random baseline, upper bound and the ends of 95% intervals, if known."""

    value: list[float | None]
    random_baseline: list[float] | None = None
    upper_bound: list[float] | None = None
    low: list[float] | None = None
    high: list[float] | None = None


class CutoffSlice(Record):
    """The curves of a slice by metric family; `best_f1` is the k with the largest mean F1."""

    n: int
    best_f1: int
    families: dict[str, Curve]


class CutoffCurves(Record):
    """Metrics and mean tokens at each cut-off."""

    ks: list[int]
    slices: dict[str, CutoffSlice]
    tokens: list[float]


class TokenSlice(Record):
    """Recall of a slice within each budget; the share `ended` of its rankings would fit more."""

    n: int
    recall: Curve
    ended: list[float]


class TokenCurves(Record):
    """Recall of the longest prefix of a ranking that fits a budget of tokens."""

    budgets: list[int]
    slices: dict[str, TokenSlice]


class RiskCurve(Record):
    """Risk against coverage, from the surest answers to all.

    `best` is the curve of a system that knows which of its answers are wrong; one that guesses has
    the risk at full coverage (`overall`) everywhere.
    """

    n: int
    coverage: list[float]
    risk: list[float]
    best: list[float]
    aurc: float
    overall: float
    confidence_source: str
    wrong_definition: str


class LatencyHistogram(Record):
    """The share of queries in each bin, and percentiles in milliseconds."""

    n: int
    share: list[float]
    p50: float
    p95: float
    p99: float


class Latency(Record):
    """Histograms of milliseconds a query over common bins; None for a run without times."""

    edges_ms: list[float]
    runs: list[LatencyHistogram | None]


# -- Reports: missed evidence ----------------------------------------------------------------------


class MissedEvidence(Record):
    """The evidence that one run missed.

    `evidence` counts all of it by ability, `counts` what was missed by ability and cause.
    `rank_bands` has first rank, last rank and count of what was ranked too low, `not_ranked` the
    counts of the rest by reason. `adjacent` and `same_session` count evidence with a neighbour, or
    another document of its session, in the top k.
    """

    evidence: dict[str, int]
    missed: int
    queries: int
    counts: dict[str, dict[str, int]]
    rank_bands: list[tuple[int, int, int]]
    not_ranked: dict[str, int]
    adjacent: int
    same_session: int


class MissCauses(Record):
    """Why evidence is not in the top k of each run: names of causes with their rules."""

    k: int
    names: list[str]
    rules: list[str]
    runs: list[MissedEvidence]


# -- Reports: answers of readers -------------------------------------------------------------------


class AnswersProtocol(Record):
    """Results of answers by slice and metric."""

    protocol: str
    slices: dict[str, dict[str, MetricResult]]


class JudgeCounts(Record):
    """Number of a judge's judgements, and how many of them are no verdict."""

    judge: str
    judgements: int
    undecided: int


class ReaderRow(Record):
    """The answers of one reader to one context: their cost and results.

    `judge_range` is the range of their accuracy, if there are several judges.
    """

    system: str
    baseline: bool
    reader: str
    tokens: float | None
    usd: float | None
    failed: int
    protocols: list[AnswersProtocol]
    judge_range: tuple[float, float] | None
    judges: list[JudgeCounts]


class Verdicts(Record):
    """One judge's verdict on each answer, the reply if it is none, and the error class."""

    judge: str
    correct: list[bool | None]
    reply: list[int]
    error_class: list[str | None]


class QueryAnswers(Record):
    """The answer to each query, the documents of its context, and all verdicts; `failed` are the
    positions of the queries with a failed answer."""

    answer: list[int]
    failed: list[int]
    context: list[list[str] | None]
    verdicts: list[Verdicts]


class AnswersSection(Record):
    """For each run, the readers of its rankings, and what each answered to every query."""

    readers: list[list[ReaderRow]]
    queries: list[list[QueryAnswers]]


# -- Reports: queries ------------------------------------------------------------------------------


class QueryColumns(Record):
    """The queries; texts, reference answers and dates are None if texts are not shared."""

    id: list[str]
    ability: list[str]
    category: list[str]
    haystack: list[str]
    text: list[int] | None = None
    answers: list[list[int]] | None = None
    date: list[str | None] | None = None


class EvidenceColumns(Record):
    """Evidence with a grade of 1 or more; the rows of query i are start[i] to start[i + 1].

    `rank` and `cause` have a list for each run: 0 if it was not returned, and the position in
    `MissCauses.names`, -1 if it was not missed.
    """

    start: list[int]
    document: list[int]
    grade: list[int]
    missing: list[int]
    rank: list[list[int]]
    cause: list[list[int]]


class RankingColumns(Record):
    """The first documents of each ranking of a run (-1: unknown), with their grades."""

    start: list[int]
    document: list[int]
    grade: list[int]


class QueryOutcomes(Record):
    """The outcome of each query in one run.

    `first` is the rank of its first evidence (0: none), `errors` the traces of failed queries by
    position, `hits` the returned texts, each with its matching method and its documents.
    """

    ms: list[float | None]
    returned: list[int]
    first: list[int]
    confidence: list[float | None]
    abstained: list[int]
    failed: list[int]
    errors: dict[str, int]
    hits: list[list[tuple[int, str, list[str]]]]


class QueryValues(Record):
    """The values of each query under one protocol, by run and metric.

    `excluded` has for each run and query the position in `reasons` of why it is in no mean, or -1.
    `difference` is of two runs, the second minus the first.
    """

    values: list[dict[str, list[float | None]]]
    reasons: list[list[str]]
    excluded: list[list[int]]
    difference: dict[str, list[float | None]] | None = None


class DocumentColumns(Record):
    """The documents that a report names; all but ids is None if texts are not shared."""

    id: list[str]
    text: list[int] | None = None
    date: list[str | None] | None = None
    session: list[str | None] | None = None
    speaker: list[str | None] | None = None


class ReportQueries(Record):
    """Every query that was asked, in the order of the query table."""

    columns: QueryColumns
    evidence: EvidenceColumns
    rankings: list[RankingColumns]
    runs: list[QueryOutcomes]
    protocols: list[QueryValues]
    documents: DocumentColumns
    texts: list[str]


class ReportSection(Record):
    """A section of a report that an entry point adds: paragraphs, and a table below them.

    `data` replaces those if a module of the page draws the section; `name` is the name of the entry
    point.
    """

    title: str
    text: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str | int | float | None]] = field(default_factory=list)
    data: Record | None = None
    name: str = ""


class ReportData(Record):
    """All data of one run, or of two that are compared.

    `shown` documents of each ranking are in it. `main` is the position of the protocol that the
    page opens with.
    """

    harness: str
    share: bool
    shown: int
    dataset: ScoredDataset
    depth: int
    asked: int
    in_dataset: int
    digest: str
    runs: list[ReportRun]
    settings: list[SettingRow]
    protocols: list[ReportProtocol]
    main: int
    by_k: list[CutoffCurves]
    by_k_of: str | None
    by_tokens: list[TokenCurves]
    tokenizer: str | None
    risk: list[RiskCurve | None]
    latency: Latency | None
    queries: ReportQueries
    sections: list[ReportSection]
    causes: MissCauses | None

    @property
    def title(self) -> str:
        """The title of the report: `bm25 on locomo`."""
        return f"{' and '.join(run.system for run in self.runs)} on {self.dataset.name}"


class PageEntry(Entry):
    """An entry as the page shows it; `report` is the address of its report, if it has one.

    `sole`: it is the only entry of its system.
    """

    label: str
    distinct_params: Params
    sole: bool
    report: str | None


class PageMetric(Record):
    """A metric that can be chosen; `k` is None if it has no cut-off."""

    name: str
    family: str
    k: int | None


class MetricBounds(Record):
    """Least and greatest random baseline and upper bound of the systems; they differ if queries
    failed. `upper_bound_method` is set if the upper bound is itself only a bound."""

    random_baseline: tuple[float, float] | None = None
    upper_bound: tuple[float, float] | None = None
    upper_bound_method: str = ""


class PageProtocol(Record):
    """A protocol that can be chosen, and its bounds by slice and metric.

    `official` is the published scorer that gives the same numbers; empty for the harness's own.
    """

    name: str
    key: ProtocolKey
    official: str
    slices: list[str]
    metrics: list[PageMetric]
    bounds: dict[str, dict[str, MetricBounds]]


class BoardHead(Record):
    """The data by which a page offers a board; `systems` are searched for."""

    id: str
    title: str
    runs: int
    systems: list[str]
    dataset: ScoredDataset
    depth: int
    queries: ScorableQueries
    scoring: ScoringVersion


class BoardPart(Record):
    """All other data of a board, which a page reads when the board is chosen."""

    protocols: list[PageProtocol]
    entries: list[PageEntry]
    answers: list[AnswersGroup] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)


class PageData(Record):
    """The data of the page. `broken` has the errors of runs that could not be read, by name.

    `options` are those of a command that names the folder of results.
    """

    harness: str
    boards: list[BoardHead]
    broken: dict[str, str]
    options: str
    links: list[tuple[str, str]] = field(default_factory=list)
