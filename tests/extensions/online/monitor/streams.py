"""Scored requests of 0 or 1 without a change, for the tests here and tests/benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from harness.extensions.online.monitor.change import Observed
from harness.stats.clusters import Ints, Values

Generator = np.random.Generator
MEAN, QUERIES = 0.8, 200
A_DAY = 6_000  # requests, and in a run's streams fewer
MONDAY = 1_704_067_200  # 2024-01-01


def drawn(rng: Generator, chances: Values) -> Values:
    """0 or 1 of each chance."""
    return (rng.random(len(chances)) < chances).astype(float)


def steady(rng: Generator, n: int) -> Values:
    return drawn(rng, np.full(n, MEAN))


def returning(rng: Generator, n: int) -> Values:
    users = np.clip(MEAN + rng.normal(0, 0.15, 50), 0, 1)
    return drawn(rng, users[rng.integers(0, 50, n)])


def bouts(size: int) -> Callable[[Generator, int], Values]:
    return lambda rng, n: drawn(
        rng, np.repeat(np.clip(MEAN + rng.normal(0, 0.2, n // size + 1), 0, 1), size)[:n]
    )


def swing(rng: Generator, n: int) -> Values:
    return drawn(rng, MEAN + 0.05 * np.sin(2 * np.pi * np.arange(n) / A_DAY))


def clocks(rng: Generator, n: int) -> Values:
    """A swing that comes an hour later from the 45th day on, as by clocks that were changed."""
    hours = np.arange(n) / (A_DAY / 24) - (np.arange(n) >= 45 * A_DAY)
    return drawn(rng, MEAN + 0.05 * np.sin(2 * np.pi * hours / 24))


def weekend(rng: Generator, n: int) -> Values:
    return drawn(rng, MEAN - 0.05 * (np.arange(n) // A_DAY % 7 >= 5))


def popularity(every: int) -> Callable[[Generator, int], Values]:
    def stream(rng: Generator, n: int) -> Values:
        scores = rng.beta(4 * MEAN, 4 * (1 - MEAN), QUERIES)
        weights, rows = zipf(QUERIES, 1), []
        for _ in range(0, n, every * A_DAY):
            rows.append(rng.permutation(QUERIES)[rng.choice(QUERIES, every * A_DAY, p=weights)])
        return drawn(rng, scores[np.concatenate(rows)[:n]])

    return stream


def drift(every: int, memory: float = 0.99) -> Callable[[Generator, int], Values]:
    def stream(rng: Generator, n: int) -> Values:
        steps = rng.normal(0, 0.05 * np.sqrt(1 - memory**2), n // every + 501)
        means = lfilter([1], [1, -memory], steps)[500:]
        return drawn(rng, np.clip(MEAN + np.repeat(means, every)[:n], 0, 1))

    return stream


def zipf(n: int, exponent: float) -> Values:
    weights = 1 / np.arange(1, n + 1) ** exponent
    return np.asarray(weights / weights.sum())


KINDS: dict[str, Callable[[Generator, int], Values]] = {
    "independent": steady,
    "users who come back": returning,
    "bouts of 10": bouts(10),
    "bouts of 50": bouts(50),
    "day and night, ±0.05": swing,
    "day and night, clocks changed once": clocks,
    "weekend, -0.05": weekend,
    "popularity of the day": popularity(1),
    "popularity of four weeks": popularity(28),
    "drift from request to request": drift(1),
    "drift every 10 requests": drift(10),
    "drift every 100 requests": drift(100),
    "drift from hour to hour": drift(A_DAY // 24),
    "good and bad days": drift(A_DAY, 0.0),
    "days that hang together, AR(.5)": drift(A_DAY, 0.5),
    "days that hang together, AR(.9)": drift(A_DAY, 0.9),
}


def timed(values: Values, a_day: int, rows: Ints) -> Observed:
    """A stream that begins on a Monday, requests coming evenly."""
    return Observed(values, MONDAY + np.arange(len(values)) * (86_400 / a_day), rows)


def by_hours(values: Values, a_day: int) -> Observed:
    """A stream's means of hours in place of its requests, for tests that look at means alone."""
    means = values.reshape(-1, a_day // 24).mean(axis=1)
    return timed(means, 24, np.full(len(means), -1))


def run_scores(rng: Generator, kind: str, n: int) -> tuple[Values, Values]:
    """(scores in the run, chance of a request to score 1) of each query."""
    chances = rng.beta(4 * MEAN, 4 * (1 - MEAN), n)
    if kind == "by chance, all 0.99":
        chances = np.full(n, 0.99)
    if kind == "alike":
        chances = drawn(rng, chances)
    if kind in ("alike", "expected"):
        return chances, chances
    if kind == "built anew, thirds":
        luck = rng.normal(0, 0.1, (2, 3))[:, np.arange(n) % 3]
        before, after = np.clip(chances + luck, 0, 1)
        return drawn(rng, before), drawn(rng, after)
    return drawn(rng, chances), (drawn(rng, chances) if kind == "built anew" else chances)


def asked(rng: Generator, n: int, exponent: float, days: int, a_day: int, *, moving: bool) -> Ints:
    """The query of each request."""
    weights, order, rows = zipf(n, exponent), rng.permutation(n), []
    for _ in range(days):
        order = rng.permutation(n) if moving else order
        rows.append(order[rng.choice(n, a_day, p=weights)])
    return np.concatenate(rows)
