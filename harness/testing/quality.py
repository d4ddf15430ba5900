"""`assert_quality`: checks a run against thresholds and against a baseline, in a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.drops import drops_of
from harness.analysis.gate import GateRules, NoDrop, drop_check, gate
from harness.errors import HarnessError, UsageError
from harness.testing import LISTENING
from harness.testing.report import Report
from harness.testing.sources import OfReport, OfScoredRun, QualitySource, source_of
from harness.testing.thresholds import Checked, Limit, Measurement, parse_limits

ALPHA = 0.05
"""Of the drops against a baseline, together."""


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
    """Fail unless a run reaches every threshold: `assert_quality(run, recall_at_10=0.7, mrr=0.5)`.

    `run` is a scored run folder, a report of `harness.testing.evaluate`, what `score_run`, `score`
    or `harness.evaluate` return, or `{query: {id: score}}`, a run file or a frame with `qrels`. A
    keyword is a metric with `_at_` for `@`, and the least that it must be; `max_p50_ms`,
    `max_p95_ms`, `max_p99_ms` and `max_false_positive_rate` are bounds from above. `ability` takes
    one slice.
    Of a run folder the number is the one that `harness gate` takes: by the first protocol that has
    the metric, at the run's granularity, unless `protocol` or `level` name another.

    With `baseline`, another folder or report, the metrics that are named must not have fallen below
    it by more than `max_drop` (0 by default) and significantly (randomisation test, 5% for all
    together); a threshold of 0 asks for that alone. Where so few cases or haystacks could not have
    shown any drop, one of more than `max_drop` fails. More than `max_failed` failed queries (0 by
    default) fail the test, and so does a number that cannot be measured.

    Returns every check. Raises AssertionError that says what was missed, by how much, and whether
    that is within noise; UsageError for unknown keywords, values that are no threshold, and numbers
    that the run does not have.
    """
    __tracebackhide__ = True
    try:
        max_failed, max_drop = thresholds.pop("max_failed", 0), thresholds.pop("max_drop", 0.0)
        if isinstance(max_failed, bool) or not isinstance(max_failed, int) or max_failed < 0:
            raise UsageError(f"max_failed must be a number of queries, not {max_failed!r}")
        if not isinstance(max_drop, int | float) or not 0 <= max_drop <= 1:
            raise UsageError(f"max_drop must be from 0 to 1, not {max_drop!r}")
        wanted = parse_limits(thresholds, protocol)
        source = source_of(run, qrels, wanted, ability, protocol, level)
        found = [_failed(source, max_failed), *(source.check_limit(limit) for limit in wanted)]
        if baseline is not None:
            found += _no_drops(source, run, baseline, wanted, max_drop)
    except HarnessError as error:
        # The trace would show our code alone, and the message says everything.
        raise error.with_traceback(None) from None
    for heard in LISTENING:
        heard += [one.plain() for one in found]
    missed = [one for one in found if not one.passed]
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
        passed=failed <= allowed,
        found=Measurement(failed, asked, ""),
        said=said if failed <= allowed else f"{said} (allowed: {allowed})",
    )


def _no_drops(
    source: QualitySource, run: Any, baseline: Any, wanted: list[Limit], allowed: float
) -> list[Checked]:
    """A check for each metric that is named, of the drop against the baseline."""
    metrics = [limit.name for limit in wanted if limit.above]
    if not metrics:
        raise UsageError("a baseline needs a metric to compare: recall_at_10=0 asks for no drop")
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
        Checked(check.rule, allowed, False, check.passed, Measurement(None, 0, ""), check.message)
        for check in checks
    ]


def _report_drops(
    report: Report, before: Report, metrics: list[str], ability: str | None, allowed: float
) -> list[Checked]:
    """A check for each metric of two reports on the same cases, by the rule of `harness gate`.

    It fails where the mean fell by more than `allowed` and significantly (randomisation test, the
    metrics as one family), or where so few cases could show nothing. Cases that failed
    count 0. Raises UsageError for reports on other cases.
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
    for name, drop in zip(metrics, drops_of(then, now, None, "cases", ALPHA), strict=True):
        title = f"{name}{f' ({ability})' if ability else ''} not below the baseline by {allowed:g}"
        held = drop_check(title, drop, allowed)
        value = -drop.fell if drop.clusters else None
        found = Measurement(value, drop.clusters, "")
        checks.append(Checked(title, allowed, False, held.passed, found, held.message))
    return checks


def _message(about: str, found: list[Checked], missed: list[Checked]) -> str:
    """Everything that was missed, with what helps to read it, and the rest in a line each."""
    lines = [f"retrieval quality of {about}: {len(missed)} of {len(found)} checks missed"]
    for one in missed:
        first, *more = one.lines
        lines += [f"  MISSED {first}", *(f"         {line}" for line in more)]
    lines += [f"  ok     {one.line}" for one in found if one.passed]
    return "\n".join(lines)
