"""Numbers by minute, hour or day, by the time of each request; only so many of them are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.online.monitor.window import Columns, FeedbackDelta

RATIO = 1.1
_SHORTEST = 1e-6
EDGES = _SHORTEST * RATIO ** np.arange(218)  # to about 1000 s
"""Bounds of the bins that times of requests are counted in: percentiles are right to 5%."""

SLACK = 86_400.0
"""A time that is further in the future than this is a mistake of the log and opens no hour."""

_COUNTS = ("n", "known", "empty", "abstained", "failed", "scored", "watched", "clicked", "rated")


@dataclass
class Bucket:
    """One hour: counts, sums of the metrics (m,), a histogram of seconds, the sum of ratings."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    sums: list[float] = field(default_factory=list)
    rating: float = 0.0
    seconds: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(EDGES) + 1, int))


class Buckets:
    """Buckets of `width` seconds, at most `most` of them; older ones are dropped and counted."""

    def __init__(self, width: int, most: int, metrics: int) -> None:
        self.width, self.most, self._metrics = width, most, metrics
        self.buckets: dict[int, Bucket] = {}
        self.dropped = 0  # buckets
        self.late = 0  # requests of buckets that were dropped
        self.without_time = 0
        self.in_the_future = 0

    def add(self, columns: Columns, values: npt.NDArray[np.float64], now: float) -> None:
        """Count requests in; `now` is what the clock says."""
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
        counts["n"] += len(values)
        for name in ("known", "empty", "abstained", "failed"):
            counts[name] += int(columns[name].sum())
        counts["scored"] += int(scored.sum())
        counts["watched"] += int((click >= 0).sum())
        counts["clicked"] += int((click > 0).sum())
        counts["rated"] += int(rated.sum())
        bucket.rating += float(rating[rated].sum())
        if scored.any():
            bucket.sums = (np.array(bucket.sums) + values[scored].sum(axis=0)).tolist()
        timed = seconds[~np.isnan(seconds)]
        np.add.at(bucket.seconds, np.searchsorted(EDGES, timed), 1)

    def feedback(self, change: FeedbackDelta) -> None:
        """Count feedback that came later to the hour of its request, if that is still here."""
        known = not np.isnan(change.time)
        bucket = self.buckets.get(int(change.time // self.width)) if known else None
        if bucket is not None:
            for name in ("watched", "clicked", "rated"):
                bucket.counts[name] += getattr(change, name)
            bucket.rating += change.rating

    def rows(self, metrics: list[str]) -> list[dict[str, Any]]:
        """One row a bucket, oldest first; a mean over nothing is None."""
        found = []
        for key in sorted(self.buckets):
            bucket = self.buckets[key]
            c = bucket.counts
            means = {m: ratio(s, c["scored"]) for m, s in zip(metrics, bucket.sums, strict=True)}
            found.append(
                {
                    "start": key * self.width,
                    **c,
                    "metrics": means,
                    "no_result": ratio(c["empty"], c["known"]),
                    "abstained_rate": ratio(c["abstained"], c["n"] - c["failed"]),
                    "failed_rate": ratio(c["failed"], c["n"]),
                    "click_rate": ratio(c["clicked"], c["watched"]),
                    "rating": ratio(bucket.rating, c["rated"]),
                    "p50": percentile(bucket.seconds, 0.5),
                    "p95": percentile(bucket.seconds, 0.95),
                }
            )
        return found

    def state(self) -> dict[str, Any]:
        """JSON for `resume`; the histograms as pairs (bin, count)."""
        return {
            "dropped": [self.dropped, self.late, self.without_time, self.in_the_future],
            "buckets": [
                [key, b.counts, b.sums, b.rating, _pairs(b.seconds)]
                for key, b in sorted(self.buckets.items())
            ],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left."""
        self.dropped, self.late, self.without_time, self.in_the_future = state["dropped"]
        for key, counts, sums, rating, pairs in state["buckets"]:
            bucket = Bucket(counts, sums, rating)
            for at, n in pairs:
                bucket.seconds[at] = n
            self.buckets[key] = bucket


def percentile(histogram: npt.NDArray[np.int64], share: float) -> float | None:
    """The middle, on a scale of logarithms, of the bin that the percentile falls in."""
    total = int(histogram.sum())
    if total == 0:
        return None
    at = int(np.searchsorted(histogram.cumsum(), share * total))
    return float(EDGES[min(at, len(EDGES) - 1)] / RATIO**0.5)


def ratio(part: float, whole: int) -> float | None:
    """part / whole; None over nothing."""
    return part / whole if whole else None


def _pairs(histogram: npt.NDArray[np.int64]) -> list[list[int]]:
    at = np.flatnonzero(histogram)
    return [[int(i), int(histogram[i])] for i in at]
