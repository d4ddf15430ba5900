"""Records of a monitor: alerts, snapshots of its statistics, and its state file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.extensions.online.logs.events import FeedbackStats, RateStats
from harness.io.records import Output, Record
from harness.records.run import LogCounts


class Alert(Record, omit_defaults=False):
    """An alert that fired or was resolved: a line of the alert log.

    `rule` is its name (`recall@10 < 0.5`), `episode` counts how often it fired,
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
    """Statistics of the requests of one ability, or of all.

    `metrics` are means over the `scored` requests (labelled, with evidence, not failed). Rates have
    their own n: `no_result` is over requests with a known result, `abstained` over those
    that did not fail, `false_positive` over those of unanswerable labelled queries: the share that
    returned something without abstaining.
    """

    n: int
    labelled: int
    scored: int
    metrics: dict[str, float | None]
    no_result: RateStats
    abstained: RateStats
    failed: RateStats
    false_positive: RateStats
    seconds: Durations


class DriftStats(Record):
    """Words of the `n` unlabelled queries of the window, compared with the labelled queries.

    Values are None if there are too few queries; see `drift`.
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
    """Statistics over the window."""

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
    """Counts of the requests of one bucket; `known`: the result is known."""

    n: int = 0
    known: int = 0
    empty: int = 0
    abstained: int = 0
    failed: int = 0
    scored: int = 0
    watched: int = 0
    clicked: int = 0
    rated: int = 0


class RollingMean(Record):
    """A mean over consecutive buckets and its 95% interval, with buckets as clusters."""

    value: float | None
    low: float | None
    high: float | None


class BucketStats(Record):
    """Statistics of one minute, hour or day; a mean over nothing is None.

    `rolling` has the mean of each metric and rate, and each percentile (without an interval), over
    the last `OverTime.rolling_buckets` buckets, including this one.
    """

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
    rolling: dict[str, RollingMean]


class OverTime(Record):
    """Statistics by bucket, oldest first, and the number of requests without a bucket, by reason.

    `dropped` counts buckets; `late` are requests of dropped buckets.
    """

    bucket: str
    width: int
    rolling_buckets: int
    rows: list[BucketStats]
    dropped: int
    late: int
    without_time: int
    in_the_future: int


class ChangeTest(Record):
    """The state of one change test.

    `reference` is its mean over `reference_n` values (None: a given number), `reference_bound` its
    worst plausible value. While it is measured, `learned` of `to_learn` values are available.
    `tested` values, in `observation_unit`, were tested; `excluded` were not, by reason. `evidence`
    is 1 when the alert fires.
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


class SystemChange(Record):
    """The first request of a system, or version, that answered none of the requests before it."""

    system: str
    request_number: int
    time: float | None


class Snapshot(WindowStats):
    """All statistics of a monitor at one moment; values that are not measurable are None.

    `labels` is the number of labelled queries, `alerts` are the active ones, `history` the last
    ones, newest first. `system_changes` are the last ones, oldest first. `errors` are current
    failures, which are retried.
    """

    window: WindowRange
    labels: int | None
    totals: Totals
    metrics: list[str]
    over_time: OverTime
    alerts: list[Alert]
    history: list[Alert]
    tests: list[ChangeTest]
    system_changes: list[SystemChange]
    errors: list[str]


class MonitorOutput(Output, Snapshot, tag="harness.monitor/1"):
    """harness monitor --once --json: the state of the window; also the data of the page."""

    name: str
    log: LogCounts | None
    notes: list[str]


# -- Test and log records in the state file --------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A mean to compare with: `mean` of `n` values, and `bound`, its worst plausible value.

    `n` None: a given number, without uncertainty.
    """

    mean: float
    bound: float
    n: int | None = None


@dataclass
class LogFile:
    """How far a file was read. `head` is a digest of its first `head_bytes`.

    `seen` is its size at the last check; `whole`: it was read to its end then.
    """

    device: int
    inode: int
    name: str
    offset: int = 0
    line: int = 1
    head_bytes: int = 0
    head: str = ""
    seen: int = -1
    whole: bool = False


class LogPosition(Record):
    """How far a log was read."""

    path: str
    files: list[LogFile]
    counts: LogCounts
