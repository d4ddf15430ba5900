"""Numbers by minute, hour or day, by the time of each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from harness.extensions.online.logs.events import rate
from harness.extensions.online.monitor.change import Saved
from harness.extensions.online.monitor.records import BucketCounts, BucketStats, OverTime
from harness.extensions.online.monitor.window import Columns, FeedbackDelta

RATIO = 1.1
_SHORTEST = 1e-6
EDGES = _SHORTEST * RATIO ** np.arange(218)  # to about 1000 s
"""Bounds of the bins that durations are counted in: percentiles are right to 5%."""

SLACK = 86_400.0
"""A time that is further in the future than this is an error of the log and opens no bucket."""


@dataclass
class Bucket:
    """One hour: counts, sums of the metrics (m,), counts of seconds by bin, the sum of ratings."""

    counts: BucketCounts = field(default_factory=BucketCounts)
    sums: list[float] = field(default_factory=list)
    rating: float = 0.0
    seconds: dict[int, int] = field(default_factory=dict)


class Buckets(Saved):
    """Buckets of `width` seconds, at most `most` of them; older ones are dropped and counted."""

    STATE = ("buckets", "dropped", "late", "without_time", "in_the_future")

    buckets: dict[int, Bucket]
    dropped: int = 0  # buckets
    late: int = 0  # requests of buckets that were dropped
    without_time: int = 0
    in_the_future: int = 0

    def __init__(self, width: int, most: int, metrics: int) -> None:
        self.width, self.most, self._metrics = width, most, metrics
        self.buckets = {}

    def add(self, columns: Columns, values: npt.NDArray[np.float64], now: float) -> None:
        """Counts requests; `now` is the present time."""
        time = columns["time"]
        known = ~np.isnan(time)
        ahead = known & (time > now + SLACK)
        self.without_time += int((~known).sum())
        self.in_the_future += int(ahead.sum())
        keys = np.floor(np.where(known & ~ahead, time, 0.0) / self.width).astype(np.int64)
        for key in np.unique(keys[known & ~ahead]).tolist():
            mine = np.flatnonzero(known & ~ahead & (keys == key))
            bucket = self._bucket(key)
            if bucket is None:
                self.late += len(mine)
            else:
                self._count(bucket, {n: c[mine] for n, c in columns.items()}, values[mine])

    def _bucket(self, key: int) -> Bucket | None:
        found = self.buckets.get(key)
        if found is not None:
            return found
        if len(self.buckets) >= self.most:
            oldest = min(self.buckets)
            if key < oldest:
                return None
            del self.buckets[oldest]
            self.dropped += 1
        self.buckets[key] = Bucket(sums=[0.0] * self._metrics)
        return self.buckets[key]

    def _count(self, bucket: Bucket, columns: Columns, values: npt.NDArray[np.float64]) -> None:
        scored = ~np.isnan(values[:, 0]) if values.shape[1] else np.zeros(len(values), bool)
        click, rating, seconds = columns["click"], columns["rating"], columns["seconds"]
        rated = ~np.isnan(rating)
        counts = bucket.counts
        counts.n += len(values)
        counts.known += int(columns["known"].sum())
        counts.empty += int(columns["empty"].sum())
        counts.abstained += int(columns["abstained"].sum())
        counts.failed += int(columns["failed"].sum())
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
        """Adds later feedback to the bucket of its request, if it is still here."""
        known = not np.isnan(change.time)
        bucket = self.buckets.get(int(change.time // self.width)) if known else None
        if bucket is not None:
            bucket.counts.watched += change.watched
            bucket.counts.clicked += change.clicked
            bucket.counts.rated += change.rated
            bucket.rating += change.rating

    def over_time(self, bucket: str, metrics: list[str]) -> OverTime:
        """Returns the numbers of all buckets, named `bucket`."""
        return OverTime(
            bucket=bucket,
            width=self.width,
            rows=[self._row(key, metrics) for key in sorted(self.buckets)],
            dropped=self.dropped,
            late=self.late,
            without_time=self.without_time,
            in_the_future=self.in_the_future,
        )

    def _row(self, key: int, metrics: list[str]) -> BucketStats:
        bucket = self.buckets[key]
        c = bucket.counts
        return BucketStats(
            start=key * self.width,
            counts=replace(c),
            metrics={
                name: rate(total, c.scored).value
                for name, total in zip(metrics, bucket.sums, strict=True)
            },
            no_result=rate(c.empty, c.known).value,
            abstained=rate(c.abstained, c.n - c.failed).value,
            failed=rate(c.failed, c.n).value,
            click_rate=rate(c.clicked, c.watched).value,
            rating=rate(bucket.rating, c.rated).value,
            p50=percentile(bucket.seconds, 0.5),
            p95=percentile(bucket.seconds, 0.95),
        )


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """Returns the middle, on a logarithmic scale, of the bin of a percentile."""
    bins = sorted(histogram)
    if not bins:
        return None
    below = np.cumsum([histogram[at] for at in bins])
    at = bins[int(np.searchsorted(below, share * below[-1]))]
    return float(EDGES[min(at, len(EDGES) - 1)] / RATIO**0.5)
