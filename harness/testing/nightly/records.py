"""The record of summary.json, and of the file that says when a list was begun."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from harness.records.base import Record
from harness.records.output import Output, OutputPart
from harness.records.run import RunRecord
from harness.records.scores import ScoreReport
from harness.verdicts.history import (
    ChangedSetting,
    HistoryQueries,
    HistoryTimes,
    HistoryVersions,
    IntervalNote,
    LineChange,
    LineDataset,
    MetricChange,
    ShortMean,
)


class BegunList(Record):
    """When the list was begun that is running, or ran last."""

    night: str


class JudgedChange(MetricChange):
    """A change with its verdict, and its p after Holm's correction over the whole list."""

    verdict: str
    p_corrected: float | None


class MetricSummary(ShortMean):
    """A mean, and its change where it was compared with the last time."""

    change: JudgedChange | None = None


class NotRun(Record, tag="not run", tag_field="state"):
    """A run that the list did not reach."""

    dataset: str
    system: str


class FailedRun(Record, tag="failed", tag_field="state"):
    """A run that failed, and the reason in a line."""

    dataset: str
    system: str
    finished: str
    reason: str


class ScoredRunSummary(Record, tag="ok", tag_field="state"):
    """A run that was scored, as in the history; `change` has no results, which `metrics` have.

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
    """How the tests of a night were corrected, and how many there were."""

    alpha: float
    correction: Literal["holm"]
    cluster_by: str
    all_queries: int
    by_ability: int


class DropSummary(Record):
    """A drop that fails the list; `open`: no drop could have been shown."""

    rule: str
    message: str
    open: bool


class NightSummary(Record):
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


class SuiteRun(OutputPart):
    """A run of a suite: `failure` says why it failed, `empty` in which haystacks nothing was found.

    `record` is its run.json, `report` its scores.json.
    """

    dataset: str
    retriever: str
    folder: str | None
    report: ScoreReport | None
    record: RunRecord | None
    failure: str
    empty: str


class RunListOutput(Output, tag="harness.run-list/1"):
    """harness run of several; `night` is summary.json of a nightly list."""

    runs: list[SuiteRun]
    night: NightSummary | None
