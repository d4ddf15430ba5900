"""Means, rates and durations over the window by ability, and by time bucket, each with its n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from harness.extensions.online.logs.events import FeedbackStats, RateStats, feedback_stats, rate
from harness.extensions.online.monitor.change import Saved
from harness.extensions.online.monitor.records import (
    BucketCounts,
    BucketStats,
    Durations,
    OverTime,
    SliceStats,
    WindowStats,
)
from harness.extensions.online.monitor.rules import RATES, TIMES
from harness.extensions.online.monitor.window import Columns, FeedbackDelta, Window, rates

Flags = npt.NDArray[np.bool_]


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


@dataclass
class Bucket:
    """One bucket: counts, sums of the metrics (m,), histogram of seconds, the sum of ratings."""

    counts: BucketCounts = field(default_factory=BucketCounts)
    sums: list[float] = field(default_factory=list)
    rating: float = 0.0
    seconds: dict[int, int] = field(default_factory=dict)


class Buckets(Saved):
    """Buckets of `width` seconds, at most `most` of them; older ones are dropped and counted."""

    STATE = ("buckets", "dropped", "late", "without_time", "in_the_future")

    buckets: dict[int, Bucket]
    dropped: int = 0  # buckets
    late: int = 0  # requests of dropped buckets
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
            self.buckets[key] = Bucket(sums=[0.0] * self._metrics)
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

    def over_time(self, bucket: str, metrics: list[str]) -> OverTime:
        """Returns the statistics of all buckets, of the kind `bucket` (minute, hour or day)."""
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
    """Returns the geometric center of the bin of a percentile; None for an empty histogram."""
    bins = sorted(histogram)
    if not bins:
        return None
    below = np.cumsum([histogram[at] for at in bins])
    at = bins[int(np.searchsorted(below, share * below[-1]))]
    return float(EDGES[min(at, len(EDGES) - 1)] / RATIO**0.5)
