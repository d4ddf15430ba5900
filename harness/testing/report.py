"""`evaluate` calls a retrieve function once per case, times and scores it, and returns a Report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from harness.errors import HarnessError, UsageError, suggest
from harness.scoring.arrays import Values
from harness.scoring.evaluate import evaluate as evaluate_rankings
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ties
from harness.stats.intervals import MeanInterval, mean_intervals
from harness.testing.cases import (
    CaseResult,
    QueryCase,
    query_function,
    quote_query,
    read_answer,
    read_cases,
)
from harness.testing.thresholds import FALSE_POSITIVE_RATE, TIMES, metric_of

CaseRow = dict[str, str | float | None]
"""A case in `Report.per_query`: its values by column."""

_DEFAULT = ("recall@{k}", "ndcg@{k}", "mrr@{k}")


def evaluate(
    retrieve: Callable[..., Any],
    cases: Iterable[Any],
    k: int = 10,
    metrics: str | Sequence[str] | None = None,
) -> Report:
    """Calls `retrieve` for every case and scores the results; `print(report)` is one line.

    `retrieve(query)` or `retrieve(query, k)` returns ids, best first, or (id, score) pairs.
    `cases` are (query, relevant) pairs, or mappings with `query`, `relevant`, `ability`, `id`;
    `relevant` is a set or list of ids, or `{id: grade}`, and empty for an unanswerable question:
    these are excluded from means, and any result for them is a false positive. `metrics` are the
    printed ones (default: recall, nDCG and MRR at k); the report computes any other up to k.
    Values are those of `harness.evaluate` and trec_eval, with rankings in the returned order.

    A case for which `retrieve` raises is failed: it counts 0, is counted in the report, and
    makes `assert_quality` fail. Repeated ids and results beyond k are excluded and counted.
    Raises UsageError, naming the case, for cases and results of another shape.
    """
    __tracebackhide__ = True
    try:
        return _evaluate(retrieve, cases, k, metrics)
    except HarnessError as error:
        # The traceback would only show code of the harness.
        raise error.with_traceback(None) from None


def _evaluate(
    retrieve: Callable[..., Any],
    cases: Iterable[Any],
    k: int,
    metrics: str | Sequence[str] | None,
) -> Report:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k must be a whole number, 1 or more, not {k!r}")
    wanted = metrics.split(",") if isinstance(metrics, str) else metrics
    names = [metric_of(name) for name in wanted or [name.format(k=k) for name in _DEFAULT]]
    for name in names:
        if (Metric.parse(name).k or 1) > k:
            raise UsageError(f"{name} needs rankings that are deeper than k = {k}; give a larger k")
    ask = query_function(retrieve, k)
    read = read_cases(cases)
    answers: list[CaseResult | None] = []
    failed: dict[str, str] = {}
    seconds: list[float] = []
    for case in read:
        began = perf_counter()
        try:
            returned = ask(case.query)
            if not isinstance(returned, str | list | tuple) and hasattr(returned, "__next__"):
                returned = list(returned)  # a generator runs, and fails, only here
            seconds.append(perf_counter() - began)
        except Exception as error:  # any error of the caller's code is reported and counted
            seconds.append(perf_counter() - began)
            failed[case.id] = " ".join(f"{type(error).__name__}: {error}".split())
            answers.append(None)
        else:
            answers.append(read_answer(case, returned, k))
    return Report(read, tuple(answers), tuple(seconds), failed, k, tuple(dict.fromkeys(names)))


@dataclass(frozen=True, repr=False)
class Report:
    """Rankings of cases and their scores. `print(report)` is one line.

    `report["recall@10"]` is a mean, None if no case has a value; it accepts any metric up to depth
    k, and `false_positive_rate`. `per_query` is a list of dicts, one per case in order
    (`pandas.DataFrame(report.per_query)`), `by_ability` has the means of each ability. `failed`
    maps case ids to the errors of `retrieve`; the `answers` of these cases are None. `seconds` is
    the duration of each call.
    """

    cases: tuple[QueryCase, ...]
    answers: tuple[CaseResult | None, ...]
    seconds: tuple[float, ...]
    failed: dict[str, str]
    k: int
    metrics: tuple[str, ...]
    _known: dict[str, Values] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, metric: str) -> float | None:
        interval = self.interval(metric)
        return interval.value if interval.n else None

    @property
    def n(self) -> int:
        """Number of answerable cases, over which means are computed; failed ones count 0."""
        return sum(c.answerable for c in self.cases)

    @property
    def per_query(self) -> list[CaseRow]:
        """One dict per case: id, query, ability, metrics, number of ids returned, ms, error.

        The metrics are the printed ones, None if the case has no value; a failed case counts 0 and
        has an error.
        """
        columns = {name: self.values(name).tolist() for name in self.metrics}
        records: list[CaseRow] = []
        for at, (case, answer) in enumerate(zip(self.cases, self.answers, strict=True)):
            values = {name: column[at] for name, column in columns.items()}
            records.append(
                {
                    "id": case.id,
                    "query": case.query,
                    "ability": case.ability or None,
                    **{name: None if value != value else value for name, value in values.items()},
                    "returned": None if answer is None else len(answer.ids),
                    "ms": 1000 * self.seconds[at],
                    "error": self.failed.get(case.id),
                }
            )
        return records

    @property
    def by_ability(self) -> dict[str, dict[str, float | None]]:
        """Means of the printed metrics and n, by ability, in the order of the cases."""
        names = dict.fromkeys(case.ability for case in self.cases if case.ability)
        found: dict[str, dict[str, float | None]] = {}
        for ability in names:
            intervals = {name: self.interval(name, ability) for name in self.metrics}
            means = {name: one.value if one.n else None for name, one in intervals.items()}
            found[ability] = {**means, "n": max(one.n for one in intervals.values())}
        return found

    @property
    def latency(self) -> dict[str, float | None]:
        """p50_ms, p95_ms and p99_ms of the successful calls; None if there are none."""
        times = [
            s for c, s in zip(self.cases, self.seconds, strict=True) if c.id not in self.failed
        ]
        if not times:
            return dict.fromkeys(TIMES)
        at = np.quantile(times, [0.5, 0.95, 0.99])
        return {name: 1000 * float(value) for name, value in zip(TIMES, at, strict=True)}

    def worst(self, n: int = 5, metric: str | None = None) -> list[CaseRow]:
        """Returns the n lowest cases in a metric (default: the first one), lowest first.

        Raises UsageError for an invalid n, and as `values` does.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise UsageError(f"worst takes a number of cases, not {n!r}")
        name = metric_of(metric) if metric else self.metrics[0]
        values = self.values(name)
        scored = np.flatnonzero(~np.isnan(values))
        order = scored[np.argsort(values[scored], kind="stable")][:n]
        records = self.per_query
        return [{**records[at], name: float(values[at])} for at in order.tolist()]

    def values(self, metric: str) -> Values:
        """Returns the metric of each case, shape (cases,), NaN if undefined.

        Raises UsageError for an unknown metric, and for one deeper than k.
        """
        name = FALSE_POSITIVE_RATE if metric == FALSE_POSITIVE_RATE else metric_of(metric)
        if name not in self._known:
            # A cache does not change the frozen record.
            self._known[name] = (
                self._false_positives() if name == FALSE_POSITIVE_RATE else self._of(name)
            )
        return self._known[name]

    def upper_bound(self, metric: str, ability: str | None = None) -> float | None:
        """Returns the mean of the best ranking: only relevant ids, highest grade first."""
        best = tuple(CaseResult(_best(case)[: self.k], None, 0, 0) for case in self.cases)
        ideal = Report(self.cases, best, self.seconds, {}, self.k, self.metrics)
        interval = ideal.interval(metric, ability)
        return interval.value if interval.n else None

    def interval(self, metric: str, ability: str | None = None) -> MeanInterval:
        """Returns mean, 95% interval and n; n is 0, and the mean NaN, if no case has a value.

        Raises UsageError for an ability that no case has.
        """
        values = self.values(metric)
        if ability is not None:
            known = list(dict.fromkeys(case.ability for case in self.cases if case.ability))
            if ability not in known:
                raise UsageError(f"no case has the ability {ability!r}{suggest(ability, known)}")
            values = values[np.array([case.ability == ability for case in self.cases])]
        return mean_intervals(values[~np.isnan(values)], bounds=(0, 1))[0]

    def answered_only(self, metric: str) -> tuple[float | None, int]:
        """Returns the mean over the cases that did not fail, or None, and their number."""
        values = self.values(metric)
        answered = np.array([case.id not in self.failed for case in self.cases], bool)
        values = values[answered & ~np.isnan(values)]
        return (float(values.mean()) if len(values) else None), len(values)

    def __str__(self) -> str:
        if len(self.failed) == len(self.cases):
            case = next(case for case in self.cases if case.id in self.failed)
            return (
                f"nothing measured: {len(self.failed)} of {len(self.cases)} cases failed, first "
                f"{case}: {self.failed[case.id]}"
            )
        intervals = {name: self.interval(name) for name in self.metrics}
        parts = [f"{name} {_short(one)}" for name, one in intervals.items()]
        said = [f"n {self.n}"]
        if approximate := next(
            (one.note for one in intervals.values() if one.approximate and one.n), ""
        ):
            said.append(f"intervals approximate ({approximate})")
        if self.failed:
            value, n = self.answered_only(self.metrics[0])
            only = "-" if value is None else f"{value:.3f}"
            said.append(f"{len(self.failed)} FAILED and count 0")
            said.append(f"answered only: {self.metrics[0]} {only} ({n})")
        without = self.interval(FALSE_POSITIVE_RATE)
        if without.n:
            said.append(f"{without.n} without an answer, false positive rate {without.value:.3f}")
        if (p95 := self.latency["p95_ms"]) is not None:
            said.append(f"p95 {p95:.3g} ms")
        given = [answer for answer in self.answers if answer is not None]
        for count, what in (
            (sum(a.repeated for a in given), "repeated results excluded"),
            (sum(a.beyond for a in given), f"results below rank {self.k} excluded"),
        ):
            if count:
                said.append(f"{count} {what}")
        return "  ".join([*parts, "; ".join(said)])

    def __repr__(self) -> str:
        return f"<Report {self}>"

    def _of(self, name: str) -> Values:
        """Computes `harness.evaluate` on answerable cases; failed cases have empty rankings."""
        if (Metric.parse(name).k or 1) > self.k:
            raise UsageError(f"{name} needs rankings that are deeper than k = {self.k}")
        asked = [
            (at, case, answer)
            for at, (case, answer) in enumerate(zip(self.cases, self.answers, strict=True))
            if case.answerable
        ]
        values = np.full(len(self.cases), np.nan)
        if asked:
            found = evaluate_rankings(
                {case.id: case.relevant for _, case, _ in asked},
                # Scores descend by rank: the returned order, without ties.
                {
                    case.id: {id_: -float(at) for at, id_ in enumerate(answer.ids)}
                    for _, case, answer in asked
                    if answer is not None
                },
                [name],
                ties=Ties.ORDER,
            )
            values[[at for at, _, _ in asked]] = found.per_query[name]
        return values

    def _false_positives(self) -> Values:
        """Returns for each unanswerable case 0 if nothing was returned, else 1; a failure counts 1,
        since an error is not an abstention."""
        return np.array(
            [
                np.nan if case.answerable else float(answer is None or bool(answer.ids))
                for case, answer in zip(self.cases, self.answers, strict=True)
            ]
        )


def case_label(case: QueryCase) -> str:
    """Returns the label of a case in lists of the worst."""
    return f"{case.id} {quote_query(case.query)}"


def _best(case: QueryCase) -> tuple[str, ...]:
    grades = sorted(case.relevant.items(), key=lambda pair: -pair[1])
    return tuple(id_ for id_, grade in grades if grade >= 1)


def _short(interval: MeanInterval) -> str:
    """Formats as `0.700 [.61, .79]`, or `-` without a value."""
    if not interval.n:
        return "-"
    if interval.method == "none":
        return f"{interval.value:.3f}"
    low, high = (f"{end:.2f}".replace("0.", ".", 1) for end in (interval.low, interval.high))
    return f"{interval.value:.3f} [{low}, {high}]"
