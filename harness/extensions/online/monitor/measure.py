"""Means, rates and durations over the window by ability, and by time bucket, each with its n."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from harness.extensions.online.logs.events import (
    FeedbackStats,
    RateStats,
    RetrievalEvent,
    feedback_stats,
    rate,
)
from harness.extensions.online.monitor.change import Saved
from harness.extensions.online.monitor.records import (
    BucketCounts,
    BucketStats,
    Durations,
    OverTime,
    RollingMean,
    SliceStats,
    SystemChange,
    WindowStats,
)
from harness.extensions.online.monitor.rules import RATES, TIMES
from harness.extensions.online.monitor.window import Columns, FeedbackDelta, Window, rates
from harness.stats.clusters import Clusters
from harness.stats.intervals import cluster_intervals

Flags = npt.NDArray[np.bool_]

_MAX_CHANGES = 100


def slices(
    window: Window, metrics: Sequence[str], abilities: Sequence[str]
) -> dict[str, SliceStats]:
    """Measures `all`, and each ability in the window."""
    ability = window.columns["ability"][: window.n]
    masks = {name: ability == code for code, name in enumerate(abilities)}
    masks = {"all": np.ones(window.n, bool)} | {n: mask for n, mask in masks.items() if mask.any()}
    return {name: _slice(window, metrics, mask) for name, mask in masks.items()}


def _slice(window: Window, metrics: Sequence[str], mask: Flags) -> SliceStats:
    at = {name: column[: window.n] for name, column in window.columns.items()}
    values = window.values[: window.n][mask]
    scored = ~np.isnan(values[:, 0])
    means = values[scored].mean(axis=0).tolist() if scored.any() else [None] * len(metrics)
    seconds = at["seconds"][mask]
    seconds = seconds[~np.isnan(seconds)]
    times = np.percentile(seconds, [50, 95, 99]).tolist() if len(seconds) else [None] * 3
    return SliceStats(
        n=int(mask.sum()),
        labelled=int((at["labelled"] & mask).sum()),
        scored=int(scored.sum()),
        metrics=dict(zip(metrics, means, strict=True)),
        seconds=Durations(n=len(seconds), **dict(zip(TIMES, times, strict=True))),
        **{
            name: rate(int((flags & base & mask).sum()), int((base & mask).sum()))
            for name, (flags, base) in rates(at).items()
        },
    )


def feedback(window: Window) -> FeedbackStats | None:
    """Measures clicks and ratings of the window; None if there are none."""
    click, rating = window.columns["click"][: window.n], window.columns["rating"][: window.n]
    return feedback_stats(click[click >= 0], rating[~np.isnan(rating)])


def measure_rule(name: str, slice_: str, stats: WindowStats) -> RateStats:
    """Returns the statistic of a rule; its value is None if it is not measurable."""
    nothing = RateStats(value=None, n=0)
    drift, window = stats.drift, stats.slices.get(slice_)
    if name in ("drift", "unseen_words"):
        if drift is None:
            return nothing
        return RateStats(value=drift.excess if name == "drift" else drift.unseen_rate, n=drift.n)
    if name in TIMES and window is not None:
        return RateStats(value=getattr(window.seconds, name), n=window.seconds.n)
    if name in (*RATES, "click_rate", "first_click_mrr", "rating"):
        found: RateStats = getattr(window if name in RATES else stats.feedback, name, nothing)
        return found
    if window is None:
        return nothing
    return RateStats(value=window.metrics.get(name), n=window.scored)


RATIO = 1.1
_SHORTEST = 1e-6
EDGES = _SHORTEST * RATIO ** np.arange(218)  # to about 1000 s
"""Bin edges of durations; percentiles are accurate to 5%."""

SLACK = 86_400.0
"""Seconds; a time further in the future is an error of the log and opens no bucket."""


BUCKETS = {"minute": (60, 60), "hour": (3600, 24), "day": (86_400, 7)}
"""By name: the width of a bucket in seconds, and the number of buckets in a rolling mean."""


@dataclass
class Bucket:
    """One bucket: counts, sums of the metrics (m,), histogram of seconds, the sum of ratings."""

    counts: BucketCounts = field(default_factory=BucketCounts)
    sums: list[float] = field(default_factory=list)
    rating: float = 0.0
    seconds: dict[int, int] = field(default_factory=dict)


class Buckets(Saved):
    """Statistics by `name` (minute, hour or day), of at most `most` buckets.

    Older buckets are dropped and counted.
    """

    STATE = ("buckets", "dropped", "late", "without_time", "in_the_future")

    buckets: dict[int, Bucket]
    dropped: int = 0  # buckets
    late: int = 0  # requests of dropped buckets
    without_time: int = 0
    in_the_future: int = 0

    def __init__(self, name: str, most: int, metrics: Sequence[str]) -> None:
        self.name, self.most, self._metrics = name, most, metrics
        self.width, self._rolling = BUCKETS[name]
        self.buckets = {}

    def add(self, columns: Columns, values: npt.NDArray[np.float64], now: float) -> None:
        """Counts requests; `now` is the present time."""
        time = columns["time"]
        known = ~np.isnan(time)
        ahead = known & (time > now + SLACK)
        self.without_time += int((~known).sum())
        self.in_the_future += int(ahead.sum())
        usable = known & ~ahead
        keys = np.floor(np.where(usable, time, 0.0) / self.width).astype(np.int64)
        for key in np.unique(keys[usable]).tolist():
            mine = np.flatnonzero(usable & (keys == key))
            bucket = self._bucket(key)
            if bucket is None:
                self.late += len(mine)
            else:
                self._count(bucket, {n: c[mine] for n, c in columns.items()}, values[mine])

    def _bucket(self, key: int) -> Bucket | None:
        if key not in self.buckets:
            if len(self.buckets) >= self.most:
                oldest = min(self.buckets)
                if key < oldest:
                    return None
                del self.buckets[oldest]
                self.dropped += 1
            self.buckets[key] = Bucket(sums=[0.0] * len(self._metrics))
        return self.buckets[key]

    def _count(self, bucket: Bucket, columns: Columns, values: npt.NDArray[np.float64]) -> None:
        scored = ~np.isnan(values[:, 0])
        click, rating, seconds = columns["click"], columns["rating"], columns["seconds"]
        rated = ~np.isnan(rating)
        counts = bucket.counts
        counts.n += len(values)
        for name in ("known", "empty", "abstained", "failed"):
            setattr(counts, name, getattr(counts, name) + int(columns[name].sum()))
        counts.scored += int(scored.sum())
        counts.watched += int((click >= 0).sum())
        counts.clicked += int((click > 0).sum())
        counts.rated += int(rated.sum())
        bucket.rating += float(rating[rated].sum())
        if scored.any():
            bucket.sums = (np.array(bucket.sums) + values[scored].sum(axis=0)).tolist()
        timed = seconds[~np.isnan(seconds)]
        for at in np.searchsorted(EDGES, timed).tolist():
            bucket.seconds[at] = bucket.seconds.get(at, 0) + 1

    def feedback(self, change: FeedbackDelta) -> None:
        """Adds later feedback to the bucket of its request, if it still exists."""
        known = not np.isnan(change.time)
        bucket = self.buckets.get(int(change.time // self.width)) if known else None
        if bucket is not None:
            bucket.counts.watched += change.watched
            bucket.counts.clicked += change.clicked
            bucket.counts.rated += change.rated
            bucket.rating += change.rating

    def over_time(self) -> OverTime:
        """Returns the statistics of all buckets, with rolling means."""
        keys = sorted(self.buckets)
        rolling = self._rolling_means(keys)
        return OverTime(
            bucket=self.name,
            width=self.width,
            rolling_buckets=self._rolling,
            rows=[self._row(key, rolling[at]) for at, key in enumerate(keys)],
            dropped=self.dropped,
            late=self.late,
            without_time=self.without_time,
            in_the_future=self.in_the_future,
        )

    def _row(self, key: int, rolling: dict[str, RollingMean]) -> BucketStats:
        bucket = self.buckets[key]
        values = {name: rate(*one).value for name, one in self._totals(bucket).items()}
        p50, p95 = (percentile(bucket.seconds, share) for share in (0.5, 0.95))
        return BucketStats(
            start=key * self.width,
            counts=replace(bucket.counts),
            metrics={name: values.pop(name) for name in self._metrics},
            **values,
            p50=p50,
            p95=p95,
            rolling=rolling,
        )

    def _totals(self, bucket: Bucket) -> dict[str, tuple[float, int]]:
        """Returns the sum and the number of values of each metric and rate, ratings last."""
        c = bucket.counts
        metrics = zip(self._metrics, bucket.sums, strict=True)
        return {name: (total, c.scored) for name, total in metrics} | {
            "no_result": (c.empty, c.known),
            "abstained": (c.abstained, c.n - c.failed),
            "failed": (c.failed, c.n),
            "click_rate": (c.clicked, c.watched),
            "rating": (bucket.rating, c.rated),
        }

    def _rolling_means(self, keys: Sequence[int]) -> list[dict[str, RollingMean]]:
        """Returns the rolling mean of each metric and rate at each bucket, and the percentiles.

        Requests within a bucket are alike, so buckets are the clusters of the intervals.
        """
        if not keys:
            return []
        mine = [self.buckets[key] for key in keys]
        totals = [self._totals(bucket) for bucket in mine]
        at = np.arange(len(keys))
        first = np.searchsorted(keys, np.array(keys) - self._rolling + 1)
        # Of each bucket and those before it: shape (buckets in a mean, buckets).
        rows = at - np.arange(min(self._rolling, len(keys)))[:, None]
        counted = rows >= first
        found: list[dict[str, RollingMean]] = [{} for _ in keys]
        for name in totals[0]:
            values = np.array([one[name] for one in totals], np.float64)
            sums, counts = (np.where(counted, values[rows, part], 0.0) for part in (0, 1))
            bounds = None if name == "rating" else (0.0, 1.0)
            intervals = cluster_intervals(Clusters(sums, counts, True), bounds=bounds)
            for row, one in zip(found, intervals, strict=True):
                row[name] = RollingMean(
                    value=_number(one.value), low=_number(one.low), high=_number(one.high)
                )
        for i, row in enumerate(found):
            seconds: Counter[int] = Counter()
            for bucket in mine[first[i] : i + 1]:
                seconds.update(bucket.seconds)
            for name, share in (("p50", 0.5), ("p95", 0.95)):
                row[name] = RollingMean(value=percentile(seconds, share), low=None, high=None)
        return found


def _number(value: float) -> float | None:
    """Returns None for NaN."""
    return None if math.isnan(value) else value


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """Returns the geometric center of the bin of a percentile; None for an empty histogram."""
    bins = sorted(histogram)
    if not bins:
        return None
    below = np.cumsum([histogram[at] for at in bins])
    at = bins[int(np.searchsorted(below, share * below[-1]))]
    return float(EDGES[min(at, len(EDGES) - 1)] / RATIO**0.5)


class SystemChanges(Saved):
    """Records when a system, or a version of it, answers after none of the last `window` requests.

    So a rollback is a change too, and two systems that answer by turns are one change.
    """

    STATE = ("changes", "last_request")

    changes: list[SystemChange]
    last_request: dict[str, int]

    def __init__(self, window: int) -> None:
        self._window = window
        self.changes, self.last_request = [], {}

    def add(self, events: Sequence[RetrievalEvent], total: int) -> None:
        """Adds requests; `total` is the number of the last one."""
        for number, event in enumerate(events, total - len(events) + 1):
            if event.system is None:
                continue
            before = self.last_request.get(event.system)
            if before is None or number - before > self._window:
                change = SystemChange(system=event.system, request_number=number, time=event.time)
                self.changes = [*self.changes, change][-_MAX_CHANGES:]
            self.last_request[event.system] = number
        if len(self.last_request) > _MAX_CHANGES:
            recent = sorted(self.last_request.items(), key=itemgetter(1))[-_MAX_CHANGES:]
            self.last_request = dict(recent)
