"""summary.json and summary.md: one night, every run, what changed, and drops that fail the suite.

The `[nightly]` table of a list of runs, and what the list calls its datasets and systems.

[nightly]
history = "results/nightly"    # folder of history and summary; default: `out`; false: neither
max_drop = 0.02                # allowed drop of a main metric, tested as by a gate
allow_inconclusive = false     # true: inconclusive drops do not change the exit status
alpha = 0.05                   # for all tests of a night together (Holm)
cluster_by = "auto"            # what is independent: haystacks, queries, auto
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field
from msgspec.structs import asdict, replace

import harness
from harness.analysis.drops import GateOutcome
from harness.analysis.gate import GateResult
from harness.analysis.gate import status as gate_status
from harness.errors import UsageError
from harness.extensions.site.history import (
    ChangedSetting,
    ChangeOutcomes,
    FailedLine,
    HistoryQueries,
    HistoryTimes,
    HistoryVersions,
    IntervalNote,
    Line,
    LineChange,
    LineDataset,
    MetricChange,
    ScoredLine,
    Series,
    ShortMean,
    drops,
    messages,
    verdicts,
)
from harness.io.records import Record, convert


@dataclass(frozen=True)
class Plan:
    """`folder` holds history and summary; `max_drop` None: no drop fails the list."""

    folder: Path
    max_drop: float | None = None
    alpha: float = 0.05
    cluster_by: str = "auto"
    allow_inconclusive: bool = False


class NightlyTable(Record):
    """The `[nightly]` table; `history`: false for none, empty for the folder of runs."""

    history: str | Literal[False] = ""
    max_drop: Annotated[float, Meta(gt=0, le=1)] | None = None
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    cluster_by: Literal["auto", "haystacks", "queries"] = "auto"
    allow_inconclusive: bool = False


def read_plan(file: Path, table: object, out: str) -> Plan | None:
    """Reads the table of a config; `out` is the folder of the runs. None means no history.

    Raises UsageError for unknown keys and values of the wrong kind.
    """
    where = f"--config {file}: [nightly]"
    found = convert(table, NightlyTable, where)
    if found.history is not False:
        folder = Path(found.history or out)
        allowed = found.allow_inconclusive
        return Plan(folder, found.max_drop, found.alpha, found.cluster_by, allowed)
    if found != NightlyTable(history=False):
        raise UsageError(
            f"{where}: history = false disables the comparison with the previous run; remove "
            "it, or the other keys"
        )
    return None


class JudgedChange(MetricChange):
    """A change with its p after Holm's correction over the whole list, None if it was not tested.

    `verdict`: `fell`, `rose`, `no change shown`, `unchanged`, `not tested` (abilities), or `open`
    (too few clusters to show a change).
    """

    verdict: str
    p_corrected: float | None


class MetricSummary(ShortMean):
    """A mean, and its change if it was compared with the last time."""

    change: JudgedChange | None = None


class NotRun(Record, tag="not run", tag_field="state"):
    """A run that was not started."""

    dataset: str
    system: str


class FailedRun(Record, tag="failed", tag_field="state"):
    """A failed run, and the reason in one line."""

    dataset: str
    system: str
    finished: str
    reason: str


class ScoredRunSummary(Record, tag="ok", tag_field="state"):
    """A scored run, as in the history; `change` has no results, which are in `metrics`.

    `stored_as` is the name of its folder in `last/`.
    """

    dataset: str
    system: str
    run: str
    finished: str
    queries: HistoryQueries
    data: LineDataset
    k: int
    protocol: str
    level: str
    versions: HistoryVersions
    intervals: IntervalNote | None
    metrics: dict[str, dict[str, MetricSummary]]
    change: LineChange
    changed_settings: list[ChangedSetting] = field(default_factory=list)
    times: HistoryTimes
    previous_times: HistoryTimes | None
    stored_as: str


RunSummary = ScoredRunSummary | FailedRun | NotRun


class TestsSummary(Record):
    """Correction and number of the tests of a night."""

    alpha: float
    correction: Literal["holm"]
    cluster_by: str
    all_queries: int


class DropSummary(Record):
    """A drop that fails the suite, or is inconclusive."""

    rule: str
    message: str
    outcome: Literal["fail", "inconclusive"]


class NightlySummary(Record):
    """summary.json: one night, every run, what changed, and drops that fail the list."""

    version: Literal[1]
    harness: str
    night: str
    ended: str
    complete: bool
    tests: TestsSummary
    messages: list[str]
    max_drop: float | None
    drops: list[DropSummary]
    failed: list[FailedRun]
    runs: list[RunSummary]


# -- The summary of one night ---------------------------------------------------------------------


def summary(
    plan: Plan,
    began: str,
    series: Sequence[Series],
    lines: Mapping[Series, Line],
    reasons: Mapping[Series, str],
    previous: Mapping[Series, HistoryTimes],
    stopped: bool,
) -> NightlySummary:
    """Summarizes one night: `reasons` why runs failed, `previous` times of the last night."""
    mine = {one: lines[one] for one in series if one in lines}
    found = verdicts(mine.values())
    checks = drops(mine.values(), found)
    runs = [_run(one, mine.get(one), reasons.get(one), previous.get(one), found) for one in series]
    return NightlySummary(
        version=1,
        harness=harness.__version__,
        night=began,
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        complete=not stopped and len(mine) == len(set(series)),
        tests=TestsSummary(
            alpha=plan.alpha,
            correction="holm",
            cluster_by=plan.cluster_by,
            all_queries=found.tested,
        ),
        messages=messages([*mine.values()], found),
        max_drop=plan.max_drop,
        drops=[
            DropSummary(
                rule=check.rule,
                message=check.message,
                outcome="fail" if check.outcome is GateOutcome.FAIL else "inconclusive",
            )
            for check in checks
            if check.outcome is not GateOutcome.PASS
        ],
        failed=[run for run in runs if isinstance(run, FailedRun)],
        runs=runs,
    )


def status(found: NightlySummary, *, allow_inconclusive: bool = False) -> int:
    """Returns the exit status of a list, as a gate does.

    1 if a drop failed, else 3 if one is inconclusive and `allow_inconclusive` is not set.
    """
    checks = [GateResult(one.rule, GateOutcome(one.outcome), one.message) for one in found.drops]
    return gate_status(checks, allow_inconclusive=allow_inconclusive)


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
    names = {*line.__struct_fields__} & {*ScoredRunSummary.__struct_fields__}
    values = {name: getattr(line, name) for name in names}
    values |= {
        "metrics": {
            part: {
                metric: MetricSummary(**asdict(mean), change=_change(line, part, metric, found))
                for metric, mean in metrics.items()
            }
            for part, metrics in line.results.items()
        },
        "change": replace(line.change, results={}),
        "previous_times": previous,
        "stored_as": folder_name(series),
    }
    return ScoredRunSummary(**values)


def _change(line: ScoredLine, part: str, metric: str, found: ChangeOutcomes) -> JudgedChange | None:
    change = line.change.results.get(part, {}).get(metric)
    if change is None:
        return None
    verdict = found.results[line.series, part, metric]
    return JudgedChange(**asdict(change), verdict=verdict.outcome, p_corrected=verdict.p)


def folder_name(series: Series) -> str:
    """Returns a readable folder name, unique for every dataset and system."""
    readable = re.sub(r"[^\w.\-]+", "-", "-".join(series))[:60].strip("-.")
    return f"{readable}-{hashlib.sha256(repr(series).encode()).hexdigest()[:8]}"
