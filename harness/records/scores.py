"""Scores of a run or of answers, as `scores.json` holds them.

A protocol's results are stored as columns: in each slice one list a field, one entry a metric. What
many metrics share (how an interval was computed, the parts of a signature) is stored once for the
protocol. `ProtocolResult.slices` gives the results one by one:

    report.protocols[0].slices["temporal"].metrics["recall@10"].value
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from harness.io.records import ChecksummedRecord, Record
from harness.records.run import HitsRecord

SCORES_VERSION = 1

_PARTING = re.compile(r"[%|\s\x00-\x20]")


class IntervalBasis(Record):
    """How an interval was computed.

    `method` is `korn-graubard`, `clopper-pearson` or `t`. `clusters` is the number of independent
    units (`cluster_by`: haystacks or queries); they carry as much information as
    `effective_clusters` of equal size. `approximate` explains why the true coverage may differ from
    95% by more than two percentage points; it is empty if it should not.
    """

    method: str
    cluster_by: str
    clusters: int
    effective_clusters: float | None = None
    approximate: str = ""


class Interval(IntervalBasis):
    """A 95% confidence interval of a mean."""

    low: float
    high: float


class MacroMean(Record):
    """A mean over groups in which each counts once: haystacks (with an interval) or categories."""

    value: float | None
    groups: int
    interval: Interval | None = None


class AnsweredOnly(Record):
    """The mean over the queries that did not fail, and how many those are."""

    value: float | None
    n: int


class TieRange(Record, array_like=True):
    """What other orders of equal scores would give, as a list: least, mean and largest value."""

    worst: float
    expected: float
    best: float


class MetricResult(Record):
    """One metric over one slice.

    `value` is the mean over `n` queries, failed ones counted 0; None where a ranking was too short
    to know it (`unmeasurable` queries). `answered_only` is there where queries failed.
    `random_baseline` is what random orders score, by `random_method` where it is not exact;
    `upper_bound` the best that any order could score, or a bound of that (`upper_bound_method`).
    """

    value: float | None
    n: int
    signature: str = ""
    interval: Interval | None = None
    random_baseline: float | None = None
    random_method: str = ""
    upper_bound: float | None = None
    upper_bound_method: str = ""
    ties: TieRange | None = None
    macro_haystack: MacroMean | None = None
    macro_category: MacroMean | None = None
    answered_only: AnsweredOnly | None = None
    unmeasurable: int = 0


R = TypeVar("R", bound=MetricResult)


class SliceResult(Record):
    """The metrics of one slice; `n` is the largest of theirs."""

    n: int
    metrics: dict[str, MetricResult]

    @classmethod
    def of(cls, metrics: dict[str, MetricResult]) -> SliceResult:
        """Returns the slice of some results."""
        return cls(n=max(one.n for one in metrics.values()), metrics=metrics)


Floats = list[float | None] | float
Texts = list[str] | str
Counts = list[int | None] | int
"""Columns: a list with one entry a metric, or one value that all metrics have."""


class SliceColumns(Record):
    """The metrics of one slice as columns, aligned with `metrics` (default: the protocol's).

    A column with equal entries is stored as a single value, an empty column is omitted. `value` is
    the mean, None where a ranking was too short to know it (`unmeasurable` queries). `low` and
    `high` are its 95% interval; `basis` and `macro_haystack_basis` are positions in the protocol's
    `interval_bases`. `metric_n` is set if some metrics are not over all `n` queries.
    `random_baseline` is the expected value of a random order, None if that is too slow to compute;
    `random_method` is empty if it is exact. `upper_bound` is the best value of any order, or by
    `upper_bound_method` a bound of it. `ties` is None where they have no effect. `macro_haystack`
    is the mean over haystacks, if they hold several queries; `macro_category` the mean over
    categories, if the publisher reports that. `answered_only` is set if queries failed.
    """

    n: int
    value: list[float | None]
    metrics: list[str] | None = None
    metric_n: Counts | None = None
    low: Floats | None = None
    high: Floats | None = None
    basis: Counts | None = None
    random_baseline: Floats | None = None
    random_method: Texts | None = None
    upper_bound: Floats | None = None
    upper_bound_method: Texts | None = None
    ties: list[TieRange | None] | None = None
    macro_haystack: Floats | None = None
    macro_haystack_groups: Counts | None = None
    macro_haystack_low: Floats | None = None
    macro_haystack_high: Floats | None = None
    macro_haystack_basis: Counts | None = None
    macro_category: list[MacroMean | None] | None = None
    answered_only: list[AnsweredOnly | None] | None = None
    unmeasurable: Counts | None = None


class ProtocolResult(Record, dict=True):
    """The results of one protocol at one level (turn, session, turn>session, answer, ...).

    `version` increases when the same rankings would get another number. `ties` is the order of
    equal scores. `excluded` counts the queries that are in no mean, by reason. `metrics` are those
    of the columns. `slices`: `all`, `answerable`, each ability, `category:NAME`. `depth_sensitive`
    names metrics that deeper rankings could change. `signature` has placeholders for `{metric}`,
    `{slice}` and `{n}`.
    """

    protocol: str
    version: int
    description: str
    level: str
    ties: str
    signature: str
    excluded: dict[str, int] = msgspec.field(default_factory=dict)
    depth_sensitive: list[str] = msgspec.field(default_factory=list)
    metrics: list[str] = msgspec.field(default_factory=list)
    interval_bases: list[IntervalBasis] = msgspec.field(default_factory=list)
    columns: dict[str, SliceColumns] = msgspec.field(name="slices", default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that each column has an entry for each metric, and each basis exists."""
        for name, part in self.columns.items():
            _check_columns(name, part, self.metrics, len(self.interval_bases))

    def with_slices(self, slices: Mapping[str, SliceResult]) -> ProtocolResult:
        """Returns the same protocol with these results, as columns."""
        return msgspec.structs.replace(self, **_columns(slices))

    def select(self, slices: Collection[str], metrics: Sequence[str]) -> ProtocolResult:
        """Returns the results of some slices and metrics alone."""
        part = {
            name: SliceResult(
                n=one.n, metrics={m: one.metrics[m] for m in metrics if m in one.metrics}
            )
            for name, one in self.slices.items()
            if name in slices
        }
        return self.with_slices(part)

    @property
    def name(self) -> str:
        """The protocol with its version: `memory/1`."""
        return f"{self.protocol}/{self.version}"

    @property
    def key(self) -> str:
        """The third part of a key of `Scores`: the protocol, and `:turn>session` at that level."""
        return f"{self.protocol}:turn>session" if self.level == "turn>session" else self.protocol

    @cached_property
    def slices(self) -> dict[str, SliceResult]:
        """The results of each slice, metric by metric."""
        return {
            name: SliceResult(n=one.n, metrics=self.results(name))
            for name, one in self.columns.items()
        }

    def find(self, metric: str, slice_: str) -> MetricResult | None:
        """Returns the result of a metric over a slice; None where there is none."""
        return self.slices[slice_].metrics.get(metric) if slice_ in self.columns else None

    def results(self, slice_: str) -> dict[str, MetricResult]:
        """Returns the results of one slice, by metric; empty where there is none."""
        if slice_ not in self.columns:
            return {}
        return _from_columns(self.columns[slice_], self, slice_, MetricResult, whole=True)

    def results_as(self, kind: type[R], slice_: str) -> dict[str, R]:
        """Returns the results of one slice as records of a kind, without signatures and macro
        means."""
        return _from_columns(self.columns[slice_], self, slice_, kind, whole=False)

    @cached_property
    def overall(self) -> dict[str, MetricResult]:
        """The results over all queries, by metric; empty where nothing was scored."""
        return self.results("all")

    @property
    def missing(self) -> str:
        """How queries without a ranking are scored: as `zero`, or not at all (`skip`)."""
        found = re.search(r"\|missing:(\w+)", self.signature)
        return found[1] if found else "-"


class ScoredDataset(Record):
    """The dataset that scores are on."""

    name: str
    granularity: str
    text: str
    split: str
    fingerprint: str
    published_files: bool | None = None
    excludes_own_document: bool = False


class ReturnedStats(Record):
    """Statistics of the returned documents against the requested depth, over non-empty rankings.

    `shorter` rankings hold fewer than were requested although the haystack has more. Before each of
    `unreached_cutoffs` more than a tenth of the rankings end.
    """

    rankings: int
    mean: float
    min: int
    shorter: int
    unreached_cutoffs: list[int]


class RequestedScores(Record):
    """Requested options of the scoring that differ from the defaults."""

    protocols: list[str]
    metrics: list[str]
    ks: list[int]
    answers: bool


class ScorableQueries(Record):
    """The queries that some protocol can score. Runs with equal digests of their ids compare."""

    n: int
    digest: str


class ScoredQueries(Record):
    """Numbers of queries; `unknown_in_run` are in the rankings but not in the dataset."""

    in_dataset: int
    asked: int
    failed: int
    scorable: ScorableQueries
    without_ranking: int = 0
    unknown_in_run: int = 0


class KnowledgeUpdateResult(Record):
    """Metrics of updated facts over `n` queries; `signature` is a template as of a protocol."""

    n: int
    values: dict[str, float | None]
    random_baseline: dict[str, float | None]
    signature: str

    @property
    def signatures(self) -> dict[str, str]:
        """The signature of each value."""
        return {
            name: fill_signature(self.signature, name, "knowledge-update", self.n)
            for name in self.values
        }


class ChangesResult(Record):
    """Returned documents that no longer hold, by metric; lower is better.

    `n` has the number of queries of each metric.
    """

    n_after_update: int
    n_after_forget: int
    n_with_future: int
    n: dict[str, int]
    values: dict[str, float | None]
    random_baseline: dict[str, float | None]
    signature: str

    @property
    def signatures(self) -> dict[str, str]:
        """The signature of each value."""
        return {
            name: fill_signature(self.signature, name, "all", self.n[name]) for name in self.values
        }


class PrecisionRecallF1(Record):
    """Precision, recall and F1 of abstaining; None where one is not defined."""

    precision: float | None
    recall: float | None
    f1: float | None


class ThresholdResult(PrecisionRecallF1):
    """The same of abstaining below a threshold, with the false positives that are left."""

    false_positive_rate: float | None


class RiskPoint(Record):
    """The share of wrong answers among the surest share of the queries."""

    coverage: float
    risk: float


class ConfidenceResult(Record):
    """How well confidence separates answerable from unanswerable queries, over `n` queries."""

    n: int
    auroc: float
    at_threshold: ThresholdResult
    fold_rule: str
    aurc: float
    risk_coverage: list[RiskPoint]


class AbstentionResult(Record):
    """Metrics of queries without an answer; absent if the run has none, or none with one.

    `as_returned` treats an empty result or an abstention as the prediction that there is no answer.
    `confidence` is None where it cannot be used; `confidence_source` is the system or its top
    score. `wrong_definition`: what the risk counts as wrong.
    """

    n_unanswerable: int
    n_answerable: int
    false_positive_rate: float | None
    as_returned: PrecisionRecallF1
    confidence: ConfidenceResult | None
    confidence_source: str
    wrong_definition: str
    signature: str

    @property
    def n(self) -> int:
        """All queries that are judged here."""
        return self.n_unanswerable + self.n_answerable

    @property
    def signatures(self) -> dict[str, str]:
        """The signature of each number."""
        over = {
            "false_positive_rate": ("abstention", self.n_unanswerable),
            "as_returned": ("all", self.n),
        }
        if self.confidence is not None:
            spoke = ("all", self.confidence.n)
            over |= {"auroc": spoke, "at_threshold": spoke, "aurc": spoke}
        return {name: fill_signature(self.signature, name, *of) for name, of in over.items()}


class TokenSummary(Record):
    """Tokens of the returned documents of a query: mean, median and 95th percentile over n."""

    n: int
    mean: float | None
    p50: float | None
    p95: float | None


class BudgetRecall(Record):
    """Recall of the longest prefix of a ranking that costs at most a budget of tokens."""

    recall: float | None
    n: int
    random_baseline: float | None


class BudgetResult(BudgetRecall):
    """The same over all queries and by ability; `ended` rankings would fit a larger budget."""

    ended: int
    by_ability: dict[str, BudgetRecall]


class TokensResult(Record):
    """Prompt costs of the rankings, and recall within budgets of tokens."""

    tokenizer: str
    per_query: TokenSummary
    per_query_top_10: TokenSummary
    recall_within_budget: dict[str, BudgetResult]
    random_method: str
    signature: str


class Estimate(Record):
    """A number with its interval; low and high are None where there is none."""

    value: float | None
    low: float | None
    high: float | None
    note: str = ""
    method: str = ""
    clusters: int | None = None
    cluster_by: str = ""


class SemanticVersusIds(Record):
    """A metric by text similarity and the same metric by ids, over the queries that have both."""

    by_ids: str
    n: int
    mean_by_ids: float
    mean_semantic: float
    difference: Estimate
    pearson: Estimate
    spearman: Estimate


class SemanticSource(Record):
    """The texts that the random baseline was drawn from."""

    texts: int
    sampled: bool


class SemanticResult(Record):
    """Accuracy by text similarity; `results` has the layout of a protocol's results."""

    description: str
    checked_against_ids: bool
    threshold: float
    model: str
    ks: list[int]
    random_source: SemanticSource
    excluded: dict[str, int]
    results: ProtocolResult
    versus_ids: dict[str, SemanticVersusIds] | None = None


class RepeatVariance(Record):
    """Variance `between` questions and `within` the repetitions of one question's answer.

    `of_experiment`: standard deviation of the mean. `questions_needed`, `haystacks_needed` (if
    questions share haystacks, with as many to each as here) and `repeats_needed` would give an
    interval of this `half_width`; None if questions show no spread, or no number is enough.
    """

    questions: int
    repeats: float
    between: float
    within: float
    of_experiment: float
    half_width: float
    questions_needed: int | None
    repeats_needed: int | None
    haystacks_needed: int | None = None


class ScoreReport(ChecksummedRecord):
    """All scores of a run, or of answers (`reader`, `repeats`, `judge_agreement`, `judges`).

    `inputs`: the sha256 of the scored files. `depth`: maximum length of a ranking. `missing` is
    `zero` or `skip`: what a query without a ranking counts. `unknown_documents` and
    `repeated_documents` count rows of the rankings. `requested` grows when a run is scored again.
    """

    version: int = SCORES_VERSION
    harness: str
    dataset: ScoredDataset
    depth: int
    queries: ScoredQueries
    protocols: list[ProtocolResult]
    missing: str = "zero"
    returned: ReturnedStats | None = None
    requested: RequestedScores | None = None
    unknown_documents: int = 0
    repeated_documents: int = 0
    knowledge_update: KnowledgeUpdateResult | None = None
    changes: ChangesResult | None = None
    abstention: AbstentionResult | None = None
    tokens: TokensResult | None = None
    semantic: SemanticResult | None = None
    hits: HitsRecord | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    reader: str | None = None
    repeats: dict[str, RepeatVariance] | None = None
    judge_agreement: dict[str, Any] | None = None
    judges: dict[str, Any] | None = None
    inputs: dict[str, str] = msgspec.field(default_factory=dict)


@cache
def quote_part(text: str) -> str:
    """Quotes what would end a part of a signature; `urllib.parse.unquote` is the inverse."""
    return _PARTING.sub(lambda found: quote(found[0]), text)


def fill_signature(template: str, metric: str, slice_: str, n: int) -> str:
    """Returns the signature of one number from the one that its section shares."""
    parts = {"{metric}": quote_part(metric), "{slice}": quote_part(slice_), "{n}": str(n)}
    return "".join([parts.get(piece, piece) for piece in _pieces(template)])


@cache
def _pieces(template: str) -> list[str]:
    """Splits a signature before and after each placeholder."""
    return re.split(r"(\{(?:metric|slice|n)\})", template)


_LISTS = ("ties", "macro_category", "answered_only")
"""Columns of records, which are lists also where all entries are equal."""

_PLAIN = ("random_baseline", "random_method", "upper_bound", "upper_bound_method", *_LISTS)
"""Columns that hold a field of the results as it is."""


def _columns(slices: Mapping[str, SliceResult]) -> dict[str, Any]:
    """Builds the fields of a protocol that hold its slices."""
    bases: dict[IntervalBasis, int] = {}
    metrics = list(next(iter(slices.values())).metrics) if slices else []
    columns = {name: _to_columns(one, metrics, bases) for name, one in slices.items()}
    return {"metrics": metrics, "interval_bases": list(bases), "columns": columns}


def _to_columns(
    part: SliceResult, metrics: Sequence[str], bases: dict[IntervalBasis, int]
) -> SliceColumns:
    results = [*part.metrics.values()]
    macros = [one.macro_haystack for one in results]
    columns: dict[str, list[Any]] = {
        **{name: [getattr(one, name) for one in results] for name in _PLAIN},
        "metric_n": [one.n for one in results],
        "unmeasurable": [one.unmeasurable or None for one in results],
        "macro_haystack": [one.value if one else None for one in macros],
        "macro_haystack_groups": [one.groups if one else None for one in macros],
        **_interval_columns("", [one.interval for one in results], bases),
        **_interval_columns(
            "macro_haystack_", [one.interval if one else None for one in macros], bases
        ),
    }
    compact = {name: _compact(column, name in _LISTS) for name, column in columns.items()}
    if compact["metric_n"] == part.n:
        compact["metric_n"] = None
    return SliceColumns(
        n=part.n,
        metrics=None if [*part.metrics] == metrics else [*part.metrics],
        value=[one.value for one in results],
        **compact,
    )


def _interval_columns(
    prefix: str, intervals: Sequence[Interval | None], bases: dict[IntervalBasis, int]
) -> dict[str, list[Any]]:
    """Returns the columns of intervals; adds to `bases` how they were computed."""

    def basis(interval: Interval) -> int:
        fields = {name: getattr(interval, name) for name in IntervalBasis.__struct_fields__}
        return bases.setdefault(IntervalBasis(**fields), len(bases))

    return {
        f"{prefix}low": [one.low if one else None for one in intervals],
        f"{prefix}high": [one.high if one else None for one in intervals],
        f"{prefix}basis": [basis(one) if one else None for one in intervals],
    }


def _compact(column: list[Any], is_list: bool) -> Any:
    """Returns the one value of a column where all entries are equal; None for empty ones."""
    if is_list:
        return column if any(one is not None for one in column) else None
    if len(set(column)) != 1:
        return column
    return None if column[0] == "" else column[0]


def _check_columns(name: str, part: SliceColumns, metrics: Sequence[str], bases: int) -> None:
    """Raises ValueError for columns of other lengths, and for positions of no interval basis."""
    n = len(metrics if part.metrics is None else part.metrics)
    for field in part.__struct_fields__:
        column = getattr(part, field)
        if isinstance(column, list) and len(column) != n:
            raise ValueError(f"slice {name!r} has {len(column)} entries of {field} for {n} metrics")
    for positions in (part.basis, part.macro_haystack_basis):
        for at in positions if isinstance(positions, list) else [positions]:
            if at is not None and not 0 <= at < bases:
                raise ValueError(f"slice {name!r} names interval basis {at} of {bases}")


def _from_columns(
    part: SliceColumns, protocol: ProtocolResult, name: str, kind: type[R], *, whole: bool
) -> dict[str, R]:
    metrics = protocol.metrics if part.metrics is None else part.metrics
    bases = [msgspec.structs.asdict(one) for one in protocol.interval_bases]

    def each(column: Any) -> list[Any]:
        return column if isinstance(column, list) else [column] * len(metrics)

    def intervals(prefix: str) -> list[Interval | None]:
        ends = (each(getattr(part, f"{prefix}{end}")) for end in ("low", "high", "basis"))
        return [
            None if None in (low, high, basis) else Interval(low=low, high=high, **bases[basis])
            for low, high, basis in zip(*ends, strict=True)
        ]

    columns: dict[str, list[Any]] = {
        "value": part.value,
        "n": [part.n if n is None else n for n in each(part.metric_n)],
        "interval": intervals(""),
        "unmeasurable": [n or 0 for n in each(part.unmeasurable)],
        **{field: each(one) for field in _PLAIN if (one := getattr(part, field)) is not None},
    }
    if whole:
        signed = zip(metrics, columns["n"], strict=True)
        columns["signature"] = [fill_signature(protocol.signature, m, name, n) for m, n in signed]
    if whole and part.macro_haystack_groups is not None:
        values, groups = each(part.macro_haystack), each(part.macro_haystack_groups)
        columns["macro_haystack"] = [
            None if n is None else MacroMean(value=value, groups=n, interval=interval)
            for value, n, interval in zip(values, groups, intervals("macro_haystack_"), strict=True)
        ]
    rows = zip(*columns.values(), strict=True)
    return {
        metric: kind(**dict(zip(columns, row, strict=True)))
        for metric, row in zip(metrics, rows, strict=True)
    }
