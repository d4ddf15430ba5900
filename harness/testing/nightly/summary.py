"""summary.json and summary.md: one night, every run, what changed, and drops that fail the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import asdict, replace

import harness
from harness.files import write_bytes
from harness.records.base import write_json_record
from harness.testing.nightly.kept import kept_name
from harness.testing.nightly.plan import Plan
from harness.testing.nightly.records import (
    DropSummary,
    FailedRun,
    JudgedChange,
    MetricSummary,
    NightSummary,
    NotRun,
    RunSummary,
    ScoredRunSummary,
    TestsSummary,
)
from harness.testing.nightly.render import render
from harness.verdicts.gate import GateResult
from harness.verdicts.gate import status as gate_status
from harness.verdicts.history import (
    ChangeOutcomes,
    FailedLine,
    HistoryTimes,
    Line,
    ScoredLine,
    Series,
    drops,
    messages,
    verdicts,
)


def summary(
    plan: Plan,
    began: str,
    series: Sequence[Series],
    lines: Mapping[Series, Line],
    reasons: Mapping[Series, str],
    previous: Mapping[Series, HistoryTimes],
    stopped: bool,
) -> NightSummary:
    """Summarizes one night: `reasons` why runs failed, `previous` times of the last night."""
    mine = {one: lines[one] for one in series if one in lines}
    found = verdicts(mine.values())
    checks = drops(mine.values(), found)
    runs = [_run(one, mine.get(one), reasons.get(one), previous.get(one), found) for one in series]
    return NightSummary(
        version=1,
        harness=harness.__version__,
        night=began,
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        complete=not stopped and len(mine) == len(set(series)),
        tests=TestsSummary(
            alpha=plan.alpha,
            correction="holm",
            cluster_by=plan.cluster_by,
            all_queries=found.tested["all"],
            by_ability=found.tested["by ability"],
        ),
        messages=messages([*mine.values()], found),
        max_drop=plan.max_drop,
        drops=[
            DropSummary(rule=check.rule, message=check.message, open=check.open)
            for check in checks
            if not check.passed
        ],
        failed=[run for run in runs if isinstance(run, FailedRun)],
        runs=runs,
    )


def write_summary(folder: Path, found: NightSummary) -> None:
    """Writes both files, each whole."""
    write_json_record(folder / "summary.json", found)
    write_bytes(folder / "summary.md", render(found, "markdown").encode("utf-8"))


def status(found: NightSummary) -> int:
    """Returns the exit status of a list by its numbers, as a gate's.

    1 where a metric dropped by more than it may, 2 where none did, but one fell so and no drop
    could have been shown.
    """
    return gate_status(
        [GateResult(one.rule, False, one.message, open=one.open) for one in found.drops]
    )


def _run(
    series: Series,
    line: Line | None,
    reason: str | None,
    previous: HistoryTimes | None,
    found: ChangeOutcomes,
) -> RunSummary:
    dataset, system = series
    if line is None:
        return NotRun(dataset=dataset, system=system)
    if isinstance(line, FailedLine):
        return FailedRun(
            dataset=dataset, system=system, finished=line.finished, reason=reason or line.error
        )
    return ScoredRunSummary(
        dataset=dataset,
        system=system,
        run=line.run,
        finished=line.finished,
        queries=line.queries,
        data=line.data,
        k=line.k,
        protocol=line.protocol,
        level=line.level,
        versions=line.versions,
        intervals=line.intervals,
        metrics={
            part: {
                metric: MetricSummary(**asdict(mean), change=_change(line, part, metric, found))
                for metric, mean in metrics.items()
            }
            for part, metrics in line.results.items()
        },
        change=replace(line.change, results={}),
        changed_settings=line.changed_settings,
        times=line.times,
        previous_times=previous,
        stored_as=kept_name(series),
    )


def _change(line: ScoredLine, part: str, metric: str, found: ChangeOutcomes) -> JudgedChange | None:
    change = line.change.results.get(part, {}).get(metric)
    if change is None:
        return None
    verdict = found.results[line.series, part, metric]
    return JudgedChange(**asdict(change), verdict=verdict.outcome, p_corrected=verdict.p)
