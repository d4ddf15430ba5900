"""`assert_quality`: checks a run against thresholds and against a baseline, in a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.compare.table import slice_masks
from harness.analysis.drops import GateOutcome, drops_of
from harness.analysis.gate import (
    GateMaximum,
    GateMinimum,
    GateRules,
    NoDrop,
    drop_check,
    gate,
    result_of,
    threshold_check,
)
from harness.analysis.scored_run import ScoredRun
from harness.errors import HarnessError, UsageError
from harness.records.run import RunRecord
from harness.runfiles.tables import is_frame
from harness.scoring.evaluate import Evaluation, evaluate
from harness.scoring.scores import Scores
from harness.stats.intervals import MeanInterval, mean_intervals
from harness.testing import LISTENING
from harness.testing.report import Report, case_label
from harness.testing.thresholds import (
    FALSE_POSITIVE_RATE,
    TIMES,
    Checked,
    Limit,
    Measurement,
    parse_limits,
    worst_first,
)

ALPHA = 0.05
"""Significance level of all drops against a baseline together."""


def assert_quality(
    run: Any,
    baseline: Any = None,
    *,
    qrels: Any = None,
    ability: str | None = None,
    protocol: str = "",
    level: str = "",
    **thresholds: float,
) -> tuple[Checked, ...]:
    """Fails unless a run reaches all thresholds: `assert_quality(run, recall_at_10=0.7, mrr=0.5)`.

    `run` is a scored run folder, a report of `harness.testing.evaluate`, the result of `score_run`,
    `score` or `harness.evaluate`, or, with `qrels`, `{query: {id: score}}`, a run file or a frame.
    Keywords are metrics, with `_at_` for `@`, and their minimum; `max_p50_ms`, `max_p95_ms`,
    `max_p99_ms` and `max_false_positive_rate` are maxima. `ability` selects a slice.
    For a run folder, values are those of `harness gate`: of the first protocol with the metric, at
    the run's granularity, unless `protocol` or `level` select another.

    With `baseline`, another folder or report, the drop of each given metric must be shown to be
    smaller than `max_drop` (one-sided test at 5%, as in `harness gate`); a threshold of 0 checks
    only this. An inconclusive drop fails too, unless `allow_inconclusive=True`. More than
    `max_failed` failed queries (default 0), and values that cannot be measured, fail.

    Returns every check. Raises AssertionError with the failed checks, their differences, and
    whether these are within noise; UsageError for unknown keywords, invalid thresholds, and metrics
    that the run does not have.
    """
    __tracebackhide__ = True
    try:
        max_failed, max_drop = thresholds.pop("max_failed", 0), thresholds.pop("max_drop", None)
        allow_inconclusive = bool(thresholds.pop("allow_inconclusive", False))
        if isinstance(max_failed, bool) or not isinstance(max_failed, int) or max_failed < 0:
            raise UsageError(f"max_failed must be a number of queries, not {max_failed!r}")
        if (max_drop is None) != (baseline is None):
            raise UsageError(
                "baseline and max_drop, the largest drop that does not matter, need each other: "
                "assert_quality(run, baseline, recall_at_10=0, max_drop=0.05)"
            )
        wanted = parse_limits(thresholds, protocol)
        source = source_of(run, qrels, wanted, ability, protocol, level)
        found = [_failed(source, max_failed), *(source.check_limit(limit) for limit in wanted)]
        if max_drop is not None:
            if not isinstance(max_drop, int | float) or not 0 < max_drop <= 1:
                raise UsageError(f"max_drop must be above 0 and at most 1, not {max_drop!r}")
            found += _no_drops(source, run, baseline, wanted, max_drop)
    except HarnessError as error:
        # The traceback would only show code of the harness.
        raise error.with_traceback(None) from None
    for heard in LISTENING:
        heard += [one.plain() for one in found]
    failures = [GateOutcome.FAIL, *([] if allow_inconclusive else [GateOutcome.INCONCLUSIVE])]
    missed = [one for one in found if one.outcome in failures]
    if missed:
        raise AssertionError(_message(source.about, found, missed))
    return tuple(found)


def _failed(source: QualitySource, allowed: int) -> Checked:
    failed, asked = source.failed()
    said = f"{failed} of {asked}"
    if isinstance(source, OfReport) and failed:
        case_id, error = next(iter(source.report.failed.items()))
        said += f", first case {case_id}: {error}"
    return Checked(
        "failed queries",
        allowed,
        above=False,
        outcome=_outcome(failed <= allowed),
        found=Measurement(failed, asked, ""),
        message=said if failed <= allowed else f"{said} (allowed: {allowed})",
    )


def _no_drops(
    source: QualitySource, run: Any, baseline: Any, wanted: list[Limit], allowed: float
) -> list[Checked]:
    """Checks the drop of each given metric against the baseline."""
    metrics = [limit.name for limit in wanted if limit.above]
    if not metrics:
        raise UsageError("a baseline needs a metric: recall_at_10=0 checks only its drop")
    if isinstance(source, OfReport) and isinstance(baseline, Report):
        return _report_drops(source.report, baseline, metrics, source.ability, allowed)
    folders = (str, Path)
    if (
        not isinstance(run, folders)
        or not isinstance(baseline, folders)
        or not isinstance(source, OfScoredRun)
    ):
        raise UsageError(
            "a baseline is compared query by query: give two scored run folders, or two reports"
        )
    rules = [
        NoDrop(
            metric=name,
            max_drop=allowed,
            slice=source.slice,
            protocol=source.protocol,
            level=source.level,
        )
        for name in metrics
    ]
    checks = gate(Path(run), GateRules(no_drop=rules), Path(baseline))[1:]
    return [
        Checked(check.rule, allowed, False, check.outcome, Measurement(None, 0, ""), check.message)
        for check in checks
    ]


def _report_drops(
    report: Report, before: Report, metrics: list[str], ability: str | None, allowed: float
) -> list[Checked]:
    """Checks the drop of each metric between two reports, by the tests of `harness gate`.

    Failed cases count 0. Raises UsageError for reports on other cases.
    """
    ours, theirs = ({case.id: case.relevant for case in one.cases} for one in (report, before))
    if ours != theirs:
        raise UsageError(
            "the baseline was measured on other cases: compare the same ids and answers"
        )
    place = {case.id: at for at, case in enumerate(before.cases)}
    order = [place[case.id] for case in report.cases]
    now = np.stack([report.values(name) for name in metrics], axis=1)
    then = np.stack([before.values(name)[order] for name in metrics], axis=1)
    if ability is not None:
        mine = np.array([case.ability == ability for case in report.cases])
        now, then = now[mine], then[mine]
    checks = []
    allowed_drops = [allowed] * len(metrics)
    found = drops_of(then, now, allowed_drops, None, "cases", ALPHA)
    for name, drop in zip(metrics, found, strict=True):
        check = drop_check(f"{name}{f' ({ability})' if ability else ''}", drop)
        value = -drop.test.mean if drop.test.clusters else None
        measured = Measurement(value, drop.test.clusters, "")
        checks.append(Checked(check.rule, allowed, False, check.outcome, measured, check.message))
    return checks


def _message(about: str, found: list[Checked], missed: list[Checked]) -> str:
    """Formats the failed checks with details, and the others in one line each."""
    lines = [f"retrieval quality of {about}: {len(missed)} of {len(found)} checks did not pass"]
    for one in missed:
        first, *more = one.lines
        lines += [f"  {one.word:<12} {first}", *(f"               {line}" for line in more)]
    lines += [f"  {one.word:<12} {one.line}" for one in found if one not in missed]
    return "\n".join(lines)


# -- The numbers of a run, a report or an evaluation ----------------------------------------------


def source_of(
    run: Any, qrels: Any, wanted: list[Limit], ability: str | None, protocol: str, level: str
) -> QualitySource:
    """Wraps a run. Raises UsageError for other objects, and arguments that its kind lacks."""
    scored = isinstance(run, Scores) or (isinstance(run, str | Path) and qrels is None)
    if not scored and (protocol or level):
        raise UsageError("protocol and level need a scored run folder")
    if qrels is not None and isinstance(run, Report | Evaluation | Scores):
        raise UsageError(f"qrels goes with a run {{query: {{id: score}}}}, not a {_kind(run)}")
    if isinstance(run, Report):
        return OfReport(run, ability)
    if scored:
        return _scored(run, ability, protocol, level)
    if not isinstance(run, Evaluation | Mapping | str | Path) and not is_frame(run):
        raise UsageError(
            f"cannot check a {_kind(run)}: give a scored run folder, a report of "
            "harness.testing.evaluate, a result of score_run or harness.evaluate, or "
            "{query: {id: score}} with qrels="
        )
    if ability is not None:
        raise UsageError("ability needs a scored run, or cases with abilities")
    if not isinstance(run, Evaluation):
        if qrels is None:
            raise UsageError("a run {query: {id: score}} needs qrels={query: {id: grade}}")
        metrics = [limit.name for limit in wanted if limit.above]
        run = evaluate(qrels, run, metrics or ["recall@10"])
    return OfEvaluation(run)


def _scored(run: Any, ability: str | None, protocol: str, level: str) -> OfScoredRun:
    if isinstance(run, Scores):
        found = ScoredRun(Path("scores"), None, run.report, run.per_query)
        return OfScoredRun(found, "scores", ability or "all", protocol, level)
    folder = Path(run)
    if folder.is_file():
        raise UsageError(
            f"{folder}: a run file needs qrels=; a scored run is a folder, made by `harness score`"
        )
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such run folder")
    found = ScoredRun.read(folder)
    return OfScoredRun(found, str(folder), ability or "all", protocol, level)


@dataclass(frozen=True)
class OfScoredRun:
    """A run scored by the harness; its values and rule are those of `harness gate`."""

    run: ScoredRun
    about: str
    slice: str
    protocol: str
    level: str

    def failed(self) -> tuple[int, int]:
        """Returns the numbers of failed and of all queries in scores.json."""
        queries = self.run.scores.queries
        return queries.failed, queries.asked

    def check_limit(self, limit: Limit) -> Checked:
        """Checks a limit, by default with the first protocol at the run's granularity."""
        if limit.name in TIMES or limit.name == FALSE_POSITIVE_RATE:
            if self.slice != "all":
                raise UsageError(f"max_{limit.name} is measured for whole runs, not for an ability")
            return _checked(limit, "", self._beside(limit))
        rule = (GateMinimum if limit.above else GateMaximum)(
            metric=limit.name,
            value=limit.value,
            slice=self.slice,
            protocol=self.protocol,
            level=self.level,
        )
        block, result = result_of(self.run, rule)
        interval = result.interval
        rows = self.run.rows(block)
        values = rows.values(limit.name)
        masks = slice_masks(rows, by_category=True)
        values = np.where(masks[self.slice], values, np.nan)
        worst, as_low = worst_first(rows.queries, values)
        found = Measurement(
            result.value,
            result.n,
            f"{self.run.blocks[block].name}, {block[1]}: {result.signature}",
            interval.low if interval else None,
            interval.high if interval else None,
            interval.approximate if interval else "",
            "the rankings are too short",
            worst,
            as_low,
            result.upper_bound,
        )
        name = "" if self.slice == "all" else self.slice
        return _checked(limit, name, found, outcome=threshold_check(self.run, rule).outcome)

    def _beside(self, limit: Limit) -> Measurement:
        """Measures values outside of protocols: false positive rate and search times."""
        if limit.name == FALSE_POSITIVE_RATE:
            found = self.run.scores.abstention
            if found is None:
                return Measurement(None, 0, "", why="no unanswerable query")
            return Measurement(
                found.false_positive_rate,
                found.n_unanswerable,
                found.signatures[FALSE_POSITIVE_RATE],
            )
        record = self.run.record  # scores without a folder have none
        measured = record.measured if isinstance(record, RunRecord) else None
        times = measured.search_ms if measured else None
        value = getattr(times, limit.name.removesuffix("_ms"), None)
        n = self.run.scores.queries.asked
        return Measurement(value, n, "", why="the run was not timed, or its folder was not given")


@dataclass(frozen=True)
class OfReport:
    """A report of `harness.testing.evaluate`."""

    report: Report
    ability: str | None

    @property
    def about(self) -> str:
        """Description: number of cases, and k."""
        return f"{len(self.report.cases)} cases, k = {self.report.k}"

    def failed(self) -> tuple[int, int]:
        """Returns the numbers of failed and of all cases."""
        return len(self.report.failed), len(self.report.cases)

    def check_limit(self, limit: Limit) -> Checked:
        """Checks a limit over the cases of the ability, or all cases."""
        report = self.report
        if limit.name in TIMES:
            value = report.latency[limit.name]
            n = len(report.cases) - len(report.failed)
            return _checked(limit, "", Measurement(value, n, "", why="every case failed"))
        interval = report.interval(limit.name, self.ability)
        values = report.values(limit.name).copy()
        if self.ability is not None:
            values[[case.ability != self.ability for case in report.cases]] = np.nan
        if limit.above:
            worst, as_low = worst_first([case_label(case) for case in report.cases], values)
        else:
            worst, as_low = worst_first([case_label(case) for case in report.cases], -values)
            worst = tuple((name, -value) for name, value in worst)
        kind = "with" if limit.above else "without"
        why = f"no case {kind} an answer"
        found = _found(interval, "", why, worst, as_low)
        if limit.above:
            found = replace(found, upper_bound=report.upper_bound(limit.name, self.ability))
        return _checked(limit, self.ability or "", found)


@dataclass(frozen=True)
class OfEvaluation:
    """A result of `harness.evaluate`."""

    evaluation: Evaluation

    @property
    def about(self) -> str:
        """Description: numbers of judged, missing and unjudged queries."""
        e = self.evaluation
        said = [f"{e.n} judged queries"]
        if e.missing_queries:
            said.append(f"{e.missing_queries} without a ranking")
        if e.unknown_queries:
            said.append(f"{e.unknown_queries} of the run's are not judged")
        return ", ".join(said)

    def failed(self) -> tuple[int, int]:
        """Returns no failures: `evaluate` has handled queries without a ranking."""
        return 0, self.evaluation.n

    def check_limit(self, limit: Limit) -> Checked:
        """Checks a limit of a computed metric."""
        per_query = self.evaluation.per_query
        if limit.name not in per_query:
            if not limit.above:
                raise UsageError(f"max_{limit.name} cannot be known of rankings and qrels alone")
            raise UsageError(
                f"{limit.name} was not computed: evaluate(qrels, run, '{limit.name}'); there is "
                f"{', '.join(per_query)}"
            )
        values = per_query[limit.name]
        interval = mean_intervals(values, bounds=(0, 1))[0]
        worst, as_low = worst_first(self.evaluation.query_ids, values)
        found = _found(interval, "trec_eval's rules", "no judged query", worst, as_low)
        return _checked(limit, "", found)


QualitySource = OfScoredRun | OfReport | OfEvaluation
"""Sources of values with `about`, `failed` and `check_limit`."""


def _found(interval: MeanInterval, how: str, why: str, worst: Any, as_low: int) -> Measurement:
    known = interval.method != "none"
    return Measurement(
        interval.value if interval.n else None,
        interval.n,
        how,
        interval.low if known else None,
        interval.high if known else None,
        interval.note if interval.approximate else "",
        why,
        worst,
        as_low,
    )


def _checked(
    limit: Limit, slice_: str, found: Measurement, *, outcome: GateOutcome | None = None
) -> Checked:
    """Returns the check of a limit; `outcome` overrides the comparison."""
    if outcome is None:
        value = found.value
        outcome = _outcome(
            value is not None and (value >= limit.value if limit.above else value <= limit.value)
        )
    name = f"{limit.name} ({slice_})" if slice_ else limit.name
    return Checked(name, limit.value, limit.above, outcome, found)


def _outcome(passed: bool) -> GateOutcome:
    return GateOutcome.PASS if passed else GateOutcome.FAIL


def _kind(run: Any) -> str:
    return type(run).__name__
