"""Simulated traffic with known truth, for the tests here and for tests/benchmarks/ab_power.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.extensions.online.abtest.plan import team_draft
from harness.stats.betting import balanced, betting_p
from harness.stats.clusters import Ints, Values, to_clusters

Generator = np.random.Generator
THIRDS = (0.0, 1 / 3, 2 / 3, 1.0)
RANKS = (0.0, 1 / 10, 1 / 5, 1 / 4, 1 / 3, 1 / 2, 1.0)
# Values of a unit, their chances with the old system, and with a better or worse one.
METRICS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    "0 or 1, mean 0.01": ((0, 1), (0.99, 0.01), (0.97, 0.03)),
    "0 or 1, mean 0.1": ((0, 1), (0.9, 0.1), (0.85, 0.15)),
    "0 or 1, mean 0.5": ((0, 1), (0.5, 0.5), (0.42, 0.58)),
    "0 or 1, mean 0.95": ((0, 1), (0.05, 0.95), (0.08, 0.92)),
    "recall in thirds": (THIRDS, (0.25, 0.1, 0.15, 0.5), (0.33, 0.12, 0.15, 0.4)),
    "reciprocal ranks": (
        RANKS,
        (0.2, 0.1, 0.05, 0.05, 0.08, 0.12, 0.4),
        (0.27, 0.1, 0.05, 0.05, 0.08, 0.12, 0.33),
    ),
}
ARRIVALS = ("new", "pool", "sessions", "power law", "pareto", "rich get richer")


def draw(generator: Generator, metric: str, shape: tuple[int, ...], *, changed: bool) -> Values:
    """Values of independent units; `seconds` are lognormal, and 15% less when changed."""
    if metric == "seconds":
        return generator.lognormal(0, 1, shape) * (0.85 if changed else 1)
    values, old, new = METRICS[metric]
    chances = np.array(new if changed else old)
    return generator.choice(np.array(values), shape, p=chances / chances.sum())


def two_arms(
    generator: Generator, metric: str, tests: int, units: int, split: float, *, changed: bool
) -> tuple[Values, Values]:
    """(values, in_a) of many tests, one a row, each unit once."""
    in_a = generator.random((tests, units)) < split
    a = draw(generator, metric, (tests, units), changed=changed)
    return np.where(in_a, a, draw(generator, metric, (tests, units), changed=False)), in_a


def running(values: Values, taken: Values) -> tuple[Ints, Values, Values]:
    """(units, mean, standard error) of the taken values after each, time on the last axis."""
    n = taken.cumsum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (values * taken).cumsum(axis=-1) / n
        squares = (values**2 * taken).cumsum(axis=-1) / n - mean**2
        return n, mean, np.sqrt(np.maximum(squares, 0) / (n - 1))


def z_path(values: Values, in_a: Values) -> Values:
    """z of the difference of the means after each unit: of proportions, else Welch's."""
    (n, a, error_a), (m, b, error_b) = (running(values, taken) for taken in (in_a, ~in_a))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.hypot(error_a, error_b)
        if np.isin(values, (0, 1)).all():
            share = (np.nan_to_num(a) * n + np.nan_to_num(b) * m) / (n + m)
            error = np.sqrt(share * (1 - share) * (1 / n + 1 / m))
        return np.abs(a - b) / error


def fixed_p_below(values: Values, in_a: Values) -> Values:
    """Whether z is beyond 1.96 after each unit, of many units."""
    return z_path(values, in_a) > 1.959964


def mixture_p(values: Values, in_a: Values) -> Values:
    """p of the normal mixture after each unit, tuned for 1,000; not before 100 units an arm."""
    units = np.arange(1, values.shape[-1] + 1)
    r = units * 7.94 / 1000
    log_p = 0.5 * np.log1p(r) - z_path(values, in_a) ** 2 / 2 * r / (1 + r)
    enough = np.minimum(in_a.cumsum(axis=-1), (~in_a).cumsum(axis=-1)) >= 100
    return np.where(enough, np.exp(np.minimum(np.nan_to_num(log_p), 0)), 1.0)


def always_p(values: Values, in_a: Values, split: float = 0.5, top: float = 1.0) -> Values:
    """The always-valid p after each unit, of values from 0 to `top`."""
    stream, reach = balanced(values, in_a, split, (0, top))
    return betting_p(stream, 0, reach)


def returning_p(values: Values, users: Ints, in_a: Values, looks: int = 20) -> float:
    """The least always-valid p of the means of users so far, at many looks on the way."""
    _, first, user = np.unique(users, return_index=True, return_inverse=True)
    entry = np.argsort(np.argsort(first))[user]
    found = [1.0]
    for n in np.unique(np.geomspace(20, len(values), looks).astype(int)):
        own = np.bincount(entry[:n], values[:n]) / np.bincount(entry[:n])
        arms = in_a[np.sort(first)][: len(own)]
        found.append(float(always_p(own, arms)[-1]))
    return min(found)


def shown(p: Values, alpha: float = 0.05) -> tuple[float, float]:
    """(share of tests whose p reaches alpha, median unit at which it does, inf for never)."""
    hit = p <= alpha
    when = np.where(hit.any(axis=-1), hit.argmax(axis=-1) + 1.0, np.inf)
    return float(np.isfinite(when).mean()), float(np.median(when))


def arrivals(generator: Generator, pattern: str, records: int) -> Values:
    """The user of each record."""
    if pattern == "pool":  # all come back alike
        return generator.integers(0, records // 5, records)
    if pattern == "sessions":  # each comes once, and stays
        return np.repeat(np.arange(records), generator.geometric(0.1, records))[:records]
    if pattern in ("power law", "pareto"):
        n = records // 5
        weight = 1 / np.arange(1, n + 1) if pattern == "power law" else generator.pareto(1.2, n)
        return generator.choice(n, records, p=weight / weight.sum())
    new = generator.random(records) < 0.1
    new[0] = True
    if pattern == "new":  # new users all the time, old ones come back alike
        known = new.cumsum()
        return np.where(new, known - 1, (generator.random(records) * known).astype(int))
    users = new.cumsum() - 1  # else an earlier record's user comes again
    picked = (generator.random(records) * np.arange(records)).astype(int)
    for at in np.flatnonzero(~new):
        users[at] = users[picked[at]]
    return users


SHAPES = {"1% at 20 s": (0.01, 20), "0.3% at 60 s": (0.003, 60), "0.1% at 300 s": (0.001, 300)}
"""Time-outs of one arm: their share, and their seconds."""


def timeouts(
    generator: Generator, shape: str, tests: int, units: int, split: float = 0.5
) -> tuple[Values, Values]:
    """(values, in_a) of arms with one mean of seconds, where b is faster but for rare time-outs."""
    share, longest = SHAPES[shape]
    in_a = generator.random((tests, units)) < split
    values = generator.lognormal(0, 0.3, (tests, units))
    mean = np.exp(0.3**2 / 2)
    faster = (mean - share * longest) / (mean * (1 - share))
    b = np.where(generator.random((tests, units)) < share, longest, faster * values)
    return np.minimum(np.where(in_a, values, b), longest), in_a


def of_users(generator: Generator, kind: str, users: Values) -> Values:
    """A value a record; users differ, and a user's records are alike."""
    n = int(users.max()) + 1
    if kind == "click":
        return (generator.random(len(users)) < generator.beta(0.5, 1.5, n)[users]) * 1.0
    if kind == "recall":
        return generator.binomial(3, generator.beta(1, 1, n)[users]) / 3
    return np.exp(generator.normal(0, 0.7, n)[users] + generator.normal(0, 0.5, len(users)))


def user_test(
    generator: Generator, pattern: str, kind: str, records: int
) -> tuple[bool, bool, bool, float]:
    """What four ways find where nothing is.

    Records taken as independent; the mean over records with its cluster-robust error; users, each
    counted once; and the least always-valid p of users at any of 20 looks.
    """
    users = arrivals(generator, pattern, records)
    in_a = (generator.random(int(users.max()) + 1) < 0.5)[users]
    values = of_users(generator, kind, users)
    naive = bool(fixed_p_below(values, in_a)[-1])
    groups = [to_clusters(values[taken], users[taken]) for taken in (in_a, ~in_a)]
    robust = _beyond(*((group.means[0], group.standard_errors[0]) for group in groups))
    seen = np.bincount(users)
    own, arms = np.bincount(users, values), np.bincount(users, in_a) > 0
    means = [own[(seen > 0) & arm] / seen[(seen > 0) & arm] for arm in (arms, ~arms)]
    once = _beyond(*((x.mean(), x.std(ddof=1) / np.sqrt(len(x))) for x in means))
    bounded = kind != "seconds"
    return naive, robust, once, returning_p(values, users, in_a) if bounded else np.nan


def _beyond(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether z is beyond 1.96, of (mean, standard error) of each arm."""
    return bool(abs(a[0] - b[0]) > 1.959964 * np.hypot(a[1], b[1]))


@dataclass(frozen=True)
class Impressions:
    """Outcomes of the same readers' questions, asked of a, of b, and of both interleaved."""

    first_a: Values  # reciprocal rank of the first click in a's ranking, 0 for none
    first_b: Values
    outcome: Values  # 1 where team a got more clicks, -1 where b did, 0 for a tie


def impressions(generator: Generator, n: int, shift: float, k: int = 10) -> Impressions:
    """`n` questions with one relevant document each, by b ranked one lower with chance `shift`.

    Readers look at the rank r with chance 0.85^(r - 1), click the relevant document with chance 0.6
    and any other with 0.05.
    """
    chances = 0.7 ** np.arange(k)
    place = generator.choice(k, n, p=chances / chances.sum())
    lower = np.minimum(place + (generator.random(n) < shift), k - 1)
    looks, coins = generator.random((3, n, k)), generator.random((n, k)) < 0.5
    seen = 0.85 ** np.arange(k)
    first = np.zeros((2, n))
    outcome = np.zeros(n)
    others = [f"d{at}" for at in range(k - 1)]
    for at in range(n):
        rankings = [[*others[:spot], "it", *others[spot:]] for spot in (place[at], lower[at])]
        both = team_draft(rankings[0], rankings[1], k, lambda turn, at=at: bool(coins[at, turn]))
        for to, ranking in enumerate((*rankings, both.documents)):
            chance = seen * np.where([document == "it" for document in ranking], 0.6, 0.05)
            clicked = np.flatnonzero(looks[to, at] < chance)
            if to < 2:
                first[to, at] = 1 / (clicked[0] + 1) if len(clicked) else 0
            else:
                wins = both.credit(ranking[spot] for spot in clicked)
                outcome[at] = np.sign(wins[0] - wins[1])
    return Impressions(first[0], first[1], outcome)


def units_for_power(effect: float, deviation: float) -> float:
    """How many units show a mean `effect` with 80% power at 5%, by the normal formula."""
    return ((1.959964 + 0.841621) * deviation / effect) ** 2
