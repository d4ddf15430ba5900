"""Records of a monitor: alerts, snapshots of its numbers, and its state file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, UnsetType

from harness.online.logs.records import FeedbackStats, Rate
from harness.online.monitor.log_file import LogFile
from harness.records.base import Record
from harness.records.output import Output
from harness.records.run import LogCounts


class Alert(Record, omit_defaults=False):
    """An alert that fired or was resolved: a line of the alert log.

    `rule` is what it is about (`recall@10 < 0.5`), `episode` counts how often it fired,
    `request_number` is the number of the newest request, and `value` a mean over `n` requests.
    """

    rule: str
    kind: Literal["threshold", "change"]
    state: Literal["firing", "resolved"]
    episode: int
    request_number: int
    time: float | None
    value: float | None
    n: int
    message: str


# -- Snapshots -------------------------------------------------------------------------------------


class Durations(Record):
    """Percentiles of the durations of `n` requests, in seconds."""

    n: int
    p50: float | None
    p95: float | None
    p99: float | None


class SliceStats(Record):
    """Numbers of the requests of one ability, or of all.

    `metrics` are means over the `scored` requests (labelled, with evidence, not failed). Rates have
    their own n: `no_result` is over requests that say what was returned, `abstained` over those
    that did not fail, `false_positive` over those of unanswerable labelled queries: the share that
    returned something without abstaining.
    """

    n: int
    labelled: int
    scored: int
    metrics: dict[str, float | None]
    no_result: Rate
    abstained: Rate
    failed: Rate
    false_positive: Rate
    seconds: Durations


class DriftStats(Record):
    """Words of the `n` unlabelled queries of the window, against those of the labelled queries.

    Numbers are None if there are too few; see `drift`.
    """

    n: int
    requests: int
    labelled: int
    divergence: float | None
    level: float | None
    excess: float | None
    unseen_rate: float | None
    labelled_unseen_rate: float | None
    caveat: str


class WindowStats(Record):
    """Numbers over the window."""

    slices: dict[str, SliceStats]
    feedback: FeedbackStats | None
    drift: DriftStats | None


class WindowRange(Record):
    """The size of a window, its number of requests, and their first and last time."""

    size: int
    n: int
    start: float | None
    end: float | None


@dataclass
class Totals:
    """Counts since the monitor began; `feedback_lost`: its request was not in the window."""

    requests: int = 0
    labelled: int = 0
    failed: int = 0
    no_result: int = 0
    abstained: int = 0
    feedback: int = 0
    feedback_lost: int = 0


@dataclass
class BucketCounts:
    """Counts of the requests of one bucket; `known`: they say what was returned."""

    n: int = 0
    known: int = 0
    empty: int = 0
    abstained: int = 0
    failed: int = 0
    scored: int = 0
    watched: int = 0
    clicked: int = 0
    rated: int = 0


class BucketStats(Record):
    """Numbers of one minute, hour or day; a mean over nothing is None."""

    start: int
    counts: BucketCounts
    metrics: dict[str, float | None]
    no_result: float | None
    abstained: float | None
    failed: float | None
    click_rate: float | None
    rating: float | None
    p50: float | None
    p95: float | None


class OverTime(Record):
    """Numbers by bucket, oldest first, and how many requests are in none of them, by reason.

    `dropped` counts buckets; `late` are requests of dropped buckets.
    """

    bucket: str
    width: int
    rows: list[BucketStats]
    dropped: int
    late: int
    without_time: int
    in_the_future: int


class ChangeTest(Record):
    """The state of one test of change.

    `reference` is its mean over `reference_n` values (None: it was set) and `reference_bound` how
    bad it may be. While it is being measured, `learned` of `to_learn` values are there. `tested`
    values, in `observation_unit`, were tested; `excluded` are in no test, by reason. `evidence` is
    1 where the alert fires.
    """

    rule: str
    metric: str
    alpha: float
    reference: float | None
    reference_bound: float | None
    reference_n: int | None
    reference_text: str
    condition: str
    learned: int | None
    to_learn: int | None
    testable: bool
    tested: int
    observation_unit: str
    excluded: dict[str, int]
    evidence: float | None
    active: bool


class Snapshot(WindowStats):
    """All numbers of a monitor at one moment; what is not measurable is None.

    `labels` is the number of labelled queries, `alerts` are the active ones, `history` the last
    ones, newest first. `errors`: what does not work at present, beside the counting.
    """

    window: WindowRange
    labels: int | None
    totals: Totals
    metrics: list[str]
    over_time: OverTime
    alerts: list[Alert]
    history: list[Alert]
    tests: list[ChangeTest]
    errors: list[str]


class MonitorOutput(Output, Snapshot, tag="harness.monitor/1"):
    """harness monitor: the state of the window; without --once one now and then, without `log`."""

    log: LogCounts | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET


class MonitorPage(Snapshot):
    """Data of the page, and /state.json; `prometheus`: /metrics is offered."""

    name: str
    log: LogCounts | None
    notes: list[str]
    prometheus: bool


# -- The state file --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A mean to compare with: `mean` of `n` values, and `bound`, how bad it may really be.

    `n` None: a number that was set, without uncertainty.
    """

    mean: float
    bound: float
    n: int | None = None


class OpenPeriodsState(Record):
    """Periods that are not over: by number and row, (value, n)."""

    late: int
    untimed: int
    counted: int
    last: int | None
    cells: dict[int, dict[int, tuple[float, int]]]


class SequentialState(Record, tag="sequential"):
    """The state of a test of a mean by its values."""

    reference: Reference | None
    n: int
    episode: int
    active: bool
    wealth: list[float]
    step: int
    pending: list[float]


class RankState(Record, tag="ranks"):
    """The state of a test of the ranks of periods."""

    reference: float | None
    n: int
    episode: int
    ranked: int
    active: bool
    wealth: list[float]
    step: int
    before: dict[int, list[float]]
    recovering: list[float]


class PeriodState(Record, tag="period"):
    """The state of a test by periods."""

    open: OpenPeriodsState
    test: SequentialState | RankState
    begun: bool
    short: int
    usual: dict[int, list[int]]
    last: list[tuple[float, int]]


class PairedState(Record, tag="paired"):
    """The state of a test query by query."""

    open: OpenPeriodsState
    n: int
    episode: int
    active: bool
    evidence: float
    queries: int
    recovered_looks: int


TestState = SequentialState | PeriodState | PairedState


@dataclass
class PendingAlert:
    """An alert that is to be written to the alert log, or delivered."""

    alert: Alert
    written: bool
    delivered: bool


class AlertsState(Record):
    """Active alerts, the last ones, how often each fired, and those to be delivered."""

    active: dict[str, Alert]
    history: list[Alert]
    episodes: dict[str, int]
    pending: list[PendingAlert]


class BucketState(Record):
    """One bucket; `seconds` are the counts of its histogram by bin."""

    counts: BucketCounts
    sums: list[float]
    rating: float
    seconds: dict[int, int]


class BucketsState(Record):
    """All buckets by number, and counts of what is in none of them."""

    dropped: int
    late: int
    without_time: int
    in_the_future: int
    buckets: dict[int, BucketState]


class FilePosition(Record):
    """How far a file of a log was read."""

    device: int
    inode: int
    file: LogFile


class LogPosition(Record):
    """How far a log was read."""

    path: str
    files: list[FilePosition]
    ignored: list[FilePosition]
    counts: LogCounts


class StateSettings(Record, omit_defaults=False):
    """Settings that a monitor must share with a state to continue from it; `labels`: a digest."""

    window: int
    metrics: list[str]
    bucket: str
    labels: str | None


class StateHeader(Record, omit_defaults=False):
    """The header of a state file, beside its arrays."""

    version: int
    settings: StateSettings
    total: int
    totals: Totals
    seconds_sum: float
    abilities: list[str]
    over_time: BucketsState
    alerts: AlertsState
    tests: dict[str, TestState]
    position: LogPosition | None
    drift_block: int | None
