"""Results of a protocol: values by query, and a mean with its interval for each slice and metric.

A value is the mean over queries. If haystacks are the clusters, the mean over haystacks, each with
equal weight, is reported too; it differs if haystacks differ in size. Warnings name metrics that
cannot distinguish systems, or cannot be determined, on this dataset and run.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.io.terminal import singular
from harness.records.scores import (
    AnsweredOnly,
    Interval,
    MacroMean,
    MetricResult,
    ReturnedStats,
    TieRange,
)
from harness.schema import Ability
from harness.scoring.arrays import Flags, Ints, Values, mean
from harness.scoring.bounds import TieOrders, UpperBounds, depth_sensitive, random_baseline
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Protocol
from harness.scoring.ranks import Ranked
from harness.scoring.resolve import UNKNOWN_SIZE, sizes_by_query
from harness.stats.clusters import to_clusters
from harness.stats.intervals import MeanInterval, cluster_intervals


def slices(dataset: Dataset) -> dict[str, Flags]:
    """Returns masks over the dataset's queries, by name; omits empty ones.

    `all` is every scored query, `answerable` all but abstention; then each ability, and each of the
    dataset's own categories as `category:...` (unless they equal the abilities).
    """
    n = dataset.n_queries
    masks: dict[str, Flags] = {"all": np.ones(n, bool)}
    abilities = dataset.abilities
    without = abilities == str(Ability.ABSTENTION)
    if without.any():
        masks["answerable"] = ~without
    for ability in Ability:
        if (abilities == str(ability)).any():
            masks[str(ability)] = abilities == str(ability)
    for category in np.unique(dataset.categories):
        if category:
            masks[f"category:{category}"] = dataset.categories == category
    return masks


@dataclass(frozen=True)
class QueryStatus:
    """The status of each query in a run; every array has shape (queries,).

    `asked`: the query was part of the run. `replied`: it is known to have been answered, possibly
    with nothing; a run file does not distinguish an empty answer from a missing query. `failed`:
    it raised an error and counts 0. `confidence`: the system's own, NaN if it gave none.
    `abstained`: the system declined to answer.

    For systems that return texts: `unmeasurable`, no text of the answer could be resolved to a
    document; `places_unresolved`, the number of such texts in rankings; `tokens`, the prompt cost
    of each returned text, by query and rank, instead of its document's; `match`, how texts were
    resolved, for the signature; `texts` of each query, best first.

    `repeated`: the number of duplicate documents removed from rankings.
    """

    asked: Flags
    replied: Flags
    failed: Flags
    confidence: Values
    abstained: Flags
    unmeasurable: Flags | None = None
    places_unresolved: int = 0
    tokens: Ints | None = None
    match: str = ""
    texts: list[list[str]] | None = None
    repeated: int = 0

    @property
    def counted(self) -> Flags:
        """Queries included in means: asked and measurable; failed ones count 0."""
        return self.asked if self.unmeasurable is None else self.asked & ~self.unmeasurable

    def skipped(self, ranked: Flags, missing: str) -> Flags:
        """Returns the queries that `missing` "skip" excludes: neither `ranked` (in the rankings)
        nor known to have been answered or to have failed. None of them if `missing` is "zero".
        """
        return ~(ranked | self.replied | self.failed) & (missing == "skip")

    @classmethod
    def everything(cls, n: int) -> QueryStatus:
        """Returns the status of an external run: every query asked, none failed."""
        no = np.zeros(n, bool)
        return cls(np.ones(n, bool), no, no.copy(), np.full(n, np.nan), no.copy())


SATURATED = 0.005
"""A mean this close to its upper bound leaves no room for a better system."""

BOUND = "an upper bound"
"""The `upper_bound_method` if the best value is not known for all queries."""


Results = dict[str, MetricResult]
"""The results of one slice, by metric."""


@dataclass(frozen=True)
class Column:
    """One metric of one protocol over all queries; every array has shape (n,).

    `values` is NaN if the query is not scored. `measurable` is False if the ranking was too short
    to determine the value. `random` and `maximum` are the random baseline and upper bound, or None;
    `best`, `worst` and `expected` are the values over other orders of ties, None if ties have no
    effect. `exact`: the maximum can be reached. `random_method` is how the random baseline was
    estimated, if it is not exact. `depth_sensitive`: a deeper ranking could change the value.
    """

    metric: Metric | str
    values: Values
    measurable: Flags
    random: Values | None
    maximum: Values | None
    best: Values | None = None
    worst: Values | None = None
    expected: Values | None = None
    exact: Flags | None = None
    random_method: str = ""
    depth_sensitive: Flags | None = None

    @cached_property
    def _scored(self) -> Flags:
        return ~np.isnan(self.values)

    def result(self, mask: Flags, failed: Flags | None = None) -> MetricResult | None:
        """Returns the mean over the scored queries of a slice; None if there are none.

        The value is None if a ranking in the slice was too short to determine it. Queries that
        `failed` are included with their value; if there are any, `answered_only` is the mean over
        the others.
        """
        mine = mask & self._scored
        n = int(np.count_nonzero(mine))
        if not n:
            return None
        unknown = int(np.count_nonzero(mine & ~self.measurable))
        exact = self.exact is None or bool(self.exact[mine].all())
        return MetricResult(
            value=None if unknown else mean(self.values[mine]),
            n=n,
            random_baseline=None if self.random is None else mean(self.random[mine]),
            random_method="" if self.random is None else self.random_method,
            upper_bound=None if self.maximum is None else mean(self.maximum[mine]),
            upper_bound_method="" if self.maximum is None or exact else BOUND,
            ties=self._ties(mine),
            answered_only=self._answered_only(mine, failed, unknown),
            unmeasurable=unknown,
        )

    def _ties(self, mine: Flags) -> TieRange | None:
        if self.best is None or self.worst is None or self.expected is None:
            return None
        worst, expected, best = (
            float(values[mine].sum() / np.count_nonzero(mine))
            for values in (self.worst, self.expected, self.best)
        )
        return TieRange(worst=worst, expected=expected, best=best) if best != worst else None

    def _answered_only(
        self, mine: Flags, failed: Flags | None, unknown: int
    ) -> AnsweredOnly | None:
        if failed is None or not (mine & failed).any():
            return None
        answered = mine & ~failed
        value = None if unknown else mean(self.values[answered])
        return AnsweredOnly(value=value, n=int(np.count_nonzero(answered)))


def with_failed_as_zero(columns: list[Column], failed: Flags) -> list[Column]:
    """Sets the values of failed queries to 0, even where a protocol counts no evidence as 1."""

    def zeroed(values: Values | None) -> Values | None:
        return None if values is None else values * ~failed

    return [
        dataclasses.replace(
            one,
            values=one.values * ~failed,
            best=zeroed(one.best),
            worst=zeroed(one.worst),
            expected=zeroed(one.expected),
        )
        for one in columns
    ]


def slice_results(
    columns: Sequence[Column], masks: Mapping[str, Flags], failed: Flags
) -> dict[str, Results]:
    """Returns the results of each non-empty slice; see `Column.result`."""
    found = {
        name: {
            str(one.metric): result
            for one in columns
            if (result := one.result(mask, failed)) is not None
        }
        for name, mask in masks.items()
    }
    return {name: results for name, results in found.items() if results}


def document_columns(
    protocol: Protocol,
    metrics: list[Metric],
    ranked: Ranked,
    scored: Flags,
    present: Flags,
    sizes: Ints,
    stable: Ints | None = None,
) -> list[Column]:
    """Computes every metric on documents; `present` (m,) and `sizes` (n,) as in `random_baseline`,
    `stable` (n,) as in `stable_depth`; without it `depth_sensitive` is not determined."""
    orders, upper_bounds = TieOrders(ranked), UpperBounds(ranked, present)
    sized = sizes.max(initial=0) < UNKNOWN_SIZE
    columns = []
    for metric in metrics:
        finish = finisher(protocol, metric, scored)
        best = worst = expected = None
        if orders.any and (mean := orders.expected(metric)) is not None:
            low, high = (finish(values) for values in reversed(orders.bounds(metric)))
            if np.nanmax(high - low, initial=0) > 1e-12:
                best, worst, expected = high, low, finish(mean)
        baseline = random_baseline(metric, ranked, present, sizes) if sized else None
        top = upper_bounds(metric)
        columns.append(
            Column(
                metric,
                finish(metric(ranked)),
                np.ones(ranked.n, bool),
                None if baseline is None else finish(baseline),
                None if top is None else finish(top.values),
                best,
                worst,
                expected,
                None if top is None else top.exact,
                depth_sensitive=None if stable is None else depth_sensitive(metric, ranked, stable),
            )
        )
    return columns


def query_table(
    dataset: Dataset, asked: Flags, protocol: str, level: str, columns: Sequence[Column]
) -> pa.Table:
    """Returns one row per asked query: its attributes and values, null if it was not scored."""
    rows = np.flatnonzero(asked)
    names = dataset.haystack_bases
    table = {
        "query": [dataset.query_ids[i] for i in rows],
        "ability": dataset.abilities[rows],
        "category": dataset.categories[rows],
        "haystack": [names[h] for h in dataset.query_haystack[rows]],
        "protocol": pa.repeat(protocol, len(rows)),
        "level": pa.repeat(level, len(rows)),
    }
    for column in columns:
        known = np.where(column.measurable, column.values, np.nan)[rows]
        table[str(column.metric)] = pa.array(known, from_pandas=True)
    return pa.table(table)


class MetricWarnings:
    """Collects uninformative metrics over all protocols of a run; one line per kind and level."""

    def __init__(self, depth: int, sizes: Ints) -> None:
        """`depth`: maximum length of a ranking; `sizes` (queries,): size of the haystack."""
        self._depth = depth
        self._median = float(np.median(sizes)) if len(sizes) else 0.0
        # (kind, level) -> names in order of first mention
        self._names: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def collect(self, columns: list[Column], level: str, results: Results) -> None:
        """Collects warnings of one protocol at one level: all metrics for loose bounds, recall and
        hit for the others."""
        for column in columns:
            metric, result = column.metric, results.get(str(column.metric))
            if result is not None and result.upper_bound_method:
                self._names["bound", level][str(metric)] = None
            if isinstance(metric, str) or result is None or metric.k is None:
                continue
            if metric.name not in ("recall", "hit"):
                continue
            value, bound = result.value, result.upper_bound
            if result.unmeasurable:
                self._names["short", level][str(metric.k)] = None
            elif level != "turn>session" and self._median <= metric.k:
                self._names["whole", level][str(metric)] = None
            elif value is not None and bound is not None and bound - value < SATURATED:
                self._names["saturated", level][str(metric)] = None

    def lines(self) -> list[str]:
        """Returns one sentence for each kind and level."""
        sentences = {
            "whole": "k reaches the whole haystack, so {names} cannot tell systems apart",
            "saturated": "saturated, within {close} of the upper bound: {names}",
            "bound": "the upper bound is loose, so perhaps no ranking reaches it: {names}",
            "short": "rankings of {depth} turns hold too few sessions for k = {names}, which needs "
            "deeper rankings",
        }
        return [
            f"{level}: "
            + sentences[kind].format(names=", ".join(names), close=SATURATED, depth=self._depth)
            for (kind, level), names in self._names.items()
        ]


def finisher(protocol: Protocol, metric: Metric, scored: Flags) -> Callable[[Values], Values]:
    """Returns a function that sets undefined values to the protocol's, and unscored ones to NaN."""
    empty = protocol.empty.get(metric.name, 0.0)
    return lambda values: np.where(scored, np.where(np.isnan(values), empty, values), np.nan)


LEVEL = 0.95
_VALUES = 1 << 22  # values (queries x columns) in memory at once: 32 MB

_NOUNS = re.compile(r"\b(?:cluster|observation)(s?)\b")


def name_clusters(text: str, over: str) -> str:
    """Rewords a note of `stats` on clusters and observations for `over`: haystacks or queries."""
    return _NOUNS.sub(lambda found: over if found[1] else singular(over), text)


def query_clusters(dataset: Dataset) -> npt.NDArray[np.int32] | None:
    """Returns each query's haystack if queries share some of several haystacks; None if queries are
    independent. As-of splits of a haystack are one cluster."""
    shares = dataset.query_shares
    return shares if 1 < len(np.unique(shares)) < dataset.n_queries else None


def with_intervals(
    dataset: Dataset,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Results],
) -> dict[str, Results]:
    """Returns the results, by slice and metric, with their 95% intervals.

    If queries share haystacks, results also have `macro_haystack`: the mean over haystacks with
    equal weights, with its own interval. Results without a value have no interval.
    """
    return with_intervals_over(query_clusters(dataset), dataset.n_queries, columns, masks, slices)


def with_macro_category(slices: Mapping[str, Results]) -> dict[str, Results]:
    """Adds the mean over categories with equal weights to the results of `all`.

    It is omitted if a category has no value, and for fewer than two categories.
    """
    categories = [results for name, results in slices.items() if name.startswith("category:")]
    if len(categories) < 2:
        return dict(slices)
    overall = {}
    for metric, result in slices.get("all", {}).items():
        values = [results[metric].value for results in categories if metric in results]
        known = [value for value in values if value is not None]
        if values and len(known) == len(values):
            macro = MacroMean(value=sum(known) / len(known), groups=len(known))
            result = replace(result, macro_category=macro)
        overall[metric] = result
    return {**slices, "all": overall}


def with_intervals_over(
    clusters: npt.NDArray[np.int32] | None,
    n: int,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Results],
    bounds: tuple[float, float] = (0, 1),
) -> dict[str, Results]:
    """Adds intervals as with_intervals does, for any n queries; `clusters` as in `query_clusters`,
    `bounds` are the minimum and maximum value of a query."""
    by_name = {str(column.metric): column for column in columns}
    found = {name: dict(results) for name, results in slices.items()}
    # Slices with the same scored queries, as `all` and `answerable` often are, have one interval.
    alike: dict[tuple[str, bytes], list[str]] = {}
    used = np.zeros(n, bool)
    for name, results in found.items():
        for metric, result in results.items():
            if result.value is not None:
                mine = masks[name] & ~np.isnan(by_name[metric].values)
                used |= mine
                alike.setdefault((metric, np.packbits(mine).tobytes()), []).append(name)
    cells = [(metric, names) for (metric, _), names in alike.items()]
    clusters = None if clusters is None else clusters[used]
    step = max(1, _VALUES // max(1, n))
    for start in range(0, len(cells), step):
        some = cells[start : start + step]
        columns_of = [
            np.where(masks[names[0]], by_name[metric].values, np.nan)[used]
            for metric, names in some
        ]
        intervals = _intervals(clusters, np.stack(columns_of, axis=1), bounds)
        for (metric, names), (interval, macro) in zip(some, intervals, strict=True):
            for name in names:
                result = replace(found[name][metric], interval=interval, macro_haystack=macro)
                found[name][metric] = result
    return found


def _intervals(
    clusters: npt.NDArray[np.int32] | None, matrix: Values, bounds: tuple[float, float]
) -> list[tuple[Interval | None, MacroMean | None]]:
    """Returns the interval and the mean over haystacks, if there are any, of each column."""
    grouped = to_clusters(matrix, clusters)
    over = "haystacks" if grouped.clustered else "queries"
    made = cluster_intervals(grouped, level=LEVEL, bounds=bounds)
    intervals = [interval_record(one, over) for one in made]
    if not grouped.clustered:
        return [(interval, None) for interval in intervals]
    means = [
        MacroMean(value=one.value, groups=one.clusters, interval=interval)
        if (interval := interval_record(one, over))
        else None
        for one in cluster_intervals(grouped.by_cluster(), level=LEVEL, bounds=bounds)
    ]
    return list(zip(intervals, means, strict=True))


def interval_record(interval: MeanInterval, cluster_by: str) -> Interval | None:
    """Converts an interval over `cluster_by` to a record; None if there is none."""
    if interval.method == "none":
        return None
    return Interval(
        low=interval.low,
        high=interval.high,
        method=interval.method,
        cluster_by=cluster_by,
        clusters=interval.clusters,
        effective_clusters=round(interval.effective, 2) if interval.clustered else None,
        approximate=name_clusters(interval.note, cluster_by) if interval.approximate else "",
    )


_SHORT = 0.1
"""Share of rankings shorter than a cutoff k above which k counts as unreached."""


def returned_stats(
    dataset: Dataset, answered: QueryStatus, ranked: Ranked, depth: int, cutoffs: Collection[int]
) -> ReturnedStats | None:
    """Returns statistics against the requested `depth`; None if nothing was returned.

    `cutoffs` are the scored cutoffs of documents.
    """
    counted = (ranked.returned > 0) & answered.asked & ~answered.failed & ~answered.abstained
    own = np.zeros(len(counted), bool)
    if dataset.manifest.exclude_self:
        own = dataset.rows_with_query_id >= 0
    return count_returned(
        ranked.returned[counted], sizes_by_query(dataset)[counted], own[counted], depth, cutoffs
    )


def count_returned(
    returned: Ints, sizes: Ints, own: Flags, depth: int, cutoffs: Collection[int]
) -> ReturnedStats | None:
    """Returns the statistics of n rankings; None for no rankings.

    Shapes (n,): `returned`, documents in a ranking; `sizes`, documents in its haystack; `own`,
    whether the query is itself a document there, which is excluded and may have occupied a rank
    within the requested `depth`.
    """
    if not len(returned):
        return None
    room = np.minimum(depth - own.astype(np.int64), sizes)
    share = {
        cutoff: float((returned < np.minimum(cutoff, room)).mean()) for cutoff in sorted(cutoffs)
    }
    return ReturnedStats(
        rankings=len(returned),
        mean=float(returned.mean()),
        min=int(returned.min()),
        shorter=int((returned < room).sum()),
        unreached_cutoffs=[cutoff for cutoff, ended in share.items() if ended > _SHORT],
    )
