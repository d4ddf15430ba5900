"""Means, rates and times over the window, by ability. Every number has the n that it is over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.extensions.online.logs.events import FeedbackStats, RateStats, feedback_stats, rate
from harness.extensions.online.monitor.records import Durations, SliceStats, WindowStats
from harness.extensions.online.monitor.rules import RATES, TIMES
from harness.extensions.online.monitor.window import Window

Flags = npt.NDArray[np.bool_]


def slices(
    window: Window, metrics: Sequence[str], abilities: Sequence[str]
) -> dict[str, SliceStats]:
    """Measures `all`, and each ability that the window has."""
    n = window.n
    ability = window.columns["ability"][:n]
    masks: dict[str, Flags] = {"all": np.ones(n, bool)}
    for code, name in enumerate(abilities):
        mask = ability == code
        if mask.any():
            masks[name] = mask
    return {name: _slice(window, metrics, mask) for name, mask in masks.items()}


def _slice(window: Window, metrics: Sequence[str], mask: Flags) -> SliceStats:
    at = {name: column[: window.n] for name, column in window.columns.items()}
    values = window.values[: window.n][mask]
    scored = ~np.isnan(values[:, 0]) if values.shape[1] else np.zeros(len(values), bool)
    answered = mask & ~at["failed"]
    silent = at["empty"] | at["abstained"]
    unanswerable = answered & at["known"] & (at["unanswerable"] == 1)
    means = values[scored].mean(axis=0).tolist() if scored.any() else [None] * len(metrics)
    seconds = at["seconds"][mask]
    seconds = seconds[~np.isnan(seconds)]
    p50, p95, p99 = _percentiles(seconds)
    return SliceStats(
        n=int(mask.sum()),
        labelled=int((at["labelled"] & mask).sum()),
        scored=int(scored.sum()),
        metrics=dict(zip(metrics, means, strict=True)),
        no_result=_share(at["empty"], answered & at["known"]),
        abstained=_share(at["abstained"], answered),
        failed=_share(at["failed"], mask),
        false_positive=_share(~silent, unanswerable),
        seconds=Durations(n=len(seconds), p50=p50, p95=p95, p99=p99),
    )


def _share(flags: Flags, base: Flags) -> RateStats:
    """Measures the share of `base` that has the flag."""
    return rate(int((flags & base).sum()), int(base.sum()))


def feedback(window: Window) -> FeedbackStats | None:
    """Measures clicks and ratings of the window; None if there are none."""
    click, rating = window.columns["click"][: window.n], window.columns["rating"][: window.n]
    return feedback_stats(click[click >= 0], rating[~np.isnan(rating)])


def measure_rule(name: str, slice_: str, stats: WindowStats) -> RateStats:
    """Returns the number that a rule is about; its value is None if it is not measurable."""
    nothing = RateStats(value=None, n=0)
    drift, window = stats.drift, stats.slices.get(slice_)
    if name in ("drift", "unseen_words"):
        if drift is None:
            return nothing
        return RateStats(value=drift.excess if name == "drift" else drift.unseen_rate, n=drift.n)
    if name in ("click_rate", "first_click_mrr", "rating"):
        given: RateStats = nothing if stats.feedback is None else getattr(stats.feedback, name)
        return given
    if window is None:
        return nothing
    if name in TIMES:
        return RateStats(value=getattr(window.seconds, name), n=window.seconds.n)
    if name in RATES:
        share: RateStats = getattr(window, name)
        return share
    return RateStats(value=window.metrics.get(name), n=window.scored)


def _percentiles(seconds: npt.NDArray[np.float64]) -> list[float | None]:
    if not len(seconds):
        return [None] * len(TIMES)
    return [float(p) for p in np.percentile(seconds, [float(name[1:]) for name in TIMES])]
