"""Simulate the hard cases of every statistical claim and write the table of claims.

    python -m tests.benchmarks.claims [--share 1.0] [--only WORD]

Every case draws data with a known truth and counts errors: intervals that miss the truth, tests
that report a difference that does not exist. Writes claims.md in this folder, which
docs/explanation/measured.md includes. All cases take about five minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.analysis.drops import drops_of
from harness.extensions.online.monitor.period_test import PERIODS, PeriodTest
from harness.stats.agreement import cohens_kappa, krippendorff_alpha
from harness.stats.clusters import Clusters, Values, to_clusters
from harness.stats.correlation import correlations
from harness.stats.intervals import cluster_intervals
from harness.stats.joint import JointTest, joint_tests, mean_tests, rank_ranges
from harness.stats.judged import (
    Errors,
    corrected_rate,
    prediction_powered,
    prediction_powered_difference,
)
from harness.stats.paired import equivalence, paired_t
from harness.stats.proportions import sample_ratio
from harness.stats.repeats import variance_components
from harness.stats.resampling import RESAMPLING
from harness.stats.unpaired import compare_unpaired
from tests.benchmarks.change_detection import DAYS, alarmed
from tests.benchmarks.gate_alarms import two_runs
from tests.benchmarks.interval_coverage import RANKS, SIZES, clustered, single
from tests.benchmarks.rank_coverage import Design, scores, skewed
from tests.extensions.online.abtest import traffic
from tests.extensions.online.monitor.streams import A_DAY, KINDS, by_hours

Flags = npt.NDArray[np.bool_]
Found = tuple[Sequence[bool] | Flags, Sequence[bool] | Flags]
"""Of each draw: whether it is wrong, and whether it is said to be approximate."""
Generator = np.random.Generator
TABLES = Path(__file__).with_suffix(".md")
TOLERATED = 2.0
"""Percentage points above the claimed rate that do not count as a failure."""


@dataclass(frozen=True)
class Case:
    """A case of the claim that at most `claimed` per cent are wrong, drawn `draws` times.

    `before` is the error rate of the method that was replaced, if one was.
    """

    claim: str
    name: str
    draw: Callable[[Generator, int], Found]
    draws: int = 1000
    before: str = ""
    claimed: float = 5.0

    def row(self, share: float) -> str:
        """The line of the table."""
        n = max(2, round(self.draws * share))
        wrong, flagged = (np.asarray(one, bool) for one in self.draw(np.random.default_rng(7), n))
        alone = 100 * float((wrong & ~flagged).mean())
        error = 100 * np.sqrt(self.claimed / 100 * (1 - self.claimed / 100) / n)
        limit = self.claimed + TOLERATED * (self.claimed > 1) + 2 * error
        verdict = "**fails**" if alone > limit else "holds"
        if alone <= limit < 100 * wrong.mean():
            verdict = "flagged"
        cells = f"{self.before} | {100 * wrong.mean():.1f}% | {100 * flagged.mean():.0f}%"
        return f"| {self.name} | {n:,} | {cells} | {alone:.1f}% | {verdict} |"


# -- Means, tests of means, equivalence ------------------------------------------------------------


def mean_of_clusters(rng: Generator, n: int, *, sizes: Values, mean: float, icc: float) -> Found:
    """Shares of 0s and 1s in haystacks."""
    return _missed(clustered(rng, n, sizes, mean, icc), mean)


def mean_of_singles(rng: Generator, n: int, *, size: int, values: Values, p: Values) -> Found:
    """Single queries with these values, 0 otherwise."""
    drawn = rng.choice([*values, 0.0], (size, n), p=[*p, 1 - np.sum(p)])
    return _missed(single(drawn), float(values @ np.asarray(p)))


def _missed(units: Clusters, true: float) -> Found:
    found = cluster_intervals(units, bounds=(0, 1))
    missed = [not one.low - 1e-12 <= true <= one.high + 1e-12 for one in found]
    return missed, np.array([one.approximate for one in found])


def observations(
    rng: Generator, n: int, sizes: Values, icc: float, mean: float
) -> tuple[Values, Values]:
    """Values of 0 and 1, (questions, draws), and the haystack of each question."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rate = np.full((len(sizes), n), mean)
    if icc:
        rate = rng.beta(mean * (1 / icc - 1), (1 - mean) * (1 / icc - 1), rate.shape)
    return (rng.random((len(labels), n)) < rate[labels]).astype(float), labels


def t_test(rng: Generator, n: int, *, sizes: Values, icc: float) -> Found:
    """Two systems that are alike."""
    first, labels = observations(rng, n, sizes, icc, 0.6)
    second, _ = observations(rng, n, sizes, icc, 0.6)
    with np.errstate(invalid="ignore"):
        tests = paired_t(first, second, labels)
    return [one.p <= 0.05 for one in tests], np.zeros(n, bool)


def whole_haystacks(rng: Generator, n: int, *, haystacks: int) -> Found:
    """Two systems of one mean; in each haystack one of them is better in every question."""
    labels = np.repeat(np.arange(haystacks), 50)
    shift = rng.choice([-0.1, 0.1], (haystacks, n))[labels]
    differences = shift + rng.normal(0, 0.1, (len(labels), n))
    grouped = to_clusters(differences, labels)
    tests = mean_tests(grouped, {**RESAMPLING, "resamples": 999})
    return [one.p <= 0.05 for one in tests], np.zeros(n, bool)


def unpaired(
    rng: Generator, n: int, *, units: tuple[int, int], spread: tuple[float, float]
) -> Found:
    """Two groups of haystacks of five questions with one mean and unlike spread."""
    labels = [np.repeat(np.arange(count), 5) for count in units]
    a, b = (
        rng.normal(0, s, (count, n))[of] + rng.normal(0, 0.3, (5 * count, n))
        for count, s, of in zip(units, spread, labels, strict=True)
    )
    found = compare_unpaired(a, b, *labels)
    return [one.p <= 0.05 for one in found], np.zeros(n, bool)


def equivalent_pairs(rng: Generator, n: int, *, size: int, share: float, rare: bool) -> Found:
    """Systems that differ by exactly the margin, a tenth by ten times as much where `rare`."""
    values = np.array([1.0, *[0.1] * 9]) if rare else np.array([1.0])
    p = np.full(len(values), share / len(values))
    drawn = rng.choice([*values, 0.0], (size, n), p=[*p, 1 - share])
    found = equivalence(np.zeros(drawn.shape), drawn, float(values @ p))
    return [one.equivalent for one in found], np.zeros(n, bool)


def equivalent_haystacks(
    rng: Generator, n: int, *, sizes: Values, margin: float, icc: float
) -> Found:
    """The same over haystacks, which differ as 0s and 1s do."""
    drawn, labels = observations(rng, n, sizes, icc, margin)
    found = equivalence(np.zeros(drawn.shape), drawn, margin, labels)
    return [one.equivalent for one in found], np.zeros(n, bool)


# -- Many tests: compare, gates, boards ------------------------------------------------------------


def labels_of(haystacks: int, size: int) -> Values | None:
    """Haystacks of one size; None for single questions."""
    return np.repeat(np.arange(haystacks), size) if haystacks else None


def compared(rng: Generator, n: int, *, haystacks: int, size: int) -> Found:
    """Three metrics over five slices of two systems that are alike: any star."""
    labels = labels_of(haystacks, size)
    chosen = [5 * part + metric for part in range(5) for metric in (0, 2, 3)]
    wrong = []
    for _ in range(n):
        before, now = two_runs(rng, labels, max(haystacks, 1) * size, 0.0)
        tests = joint_tests((now - before)[:, chosen], labels, resamples=999)
        wrong.append(any(one.p <= 0.05 for one in tests))
    return wrong, np.zeros(n, bool)


def undetected(rng: Generator, n: int, *, haystacks: int, size: int) -> Found:
    """A difference as large as `detectable` says that 80% of comparisons show, in one column."""
    labels = labels_of(haystacks, size)
    chosen = [5 * part + metric for part in range(5) for metric in (0, 2, 3)]

    def tested(shift: float) -> JointTest:
        before, now = two_runs(rng, labels, max(haystacks, 1) * size, 0.0)
        differences = (now - before)[:, chosen]
        differences[:, 0] += shift
        return joint_tests(differences, labels, resamples=999)[0]

    shift = float(np.mean([tested(0.0).detectable for _ in range(40)]))
    return [tested(shift).p > 0.05 for _ in range(n)], np.zeros(n, bool)


def gated(rng: Generator, n: int, *, haystacks: int, size: int) -> Found:
    """A gate of 25 rules where nothing fell."""
    labels = labels_of(haystacks, size)
    names = None if labels is None else [str(one) for one in labels]
    wrong = []
    for _ in range(n):
        before, now = two_runs(rng, labels, max(haystacks, 1) * size, 0.0)
        drops = drops_of(before, now, [0.0] * before.shape[1], names, "units", 0.05)
        wrong.append(any(drop.outcome == "fail" for drop in drops))
    return wrong, np.zeros(n, bool)


def board(
    rng: Generator, n: int, *, systems: int, haystacks: int, size: int, skew: bool = False
) -> Found:
    """A board of equal systems with any order; with `skew` the first has 0.1 always, the others 1
    in a tenth of the questions."""
    labels = labels_of(haystacks, size)
    design = Design("", labels, max(haystacks, 1) * size)
    wrong = []
    for at in range(n):
        if skew:
            values = np.column_stack([skewed(rng, size)[:, 1] for _ in range(systems)])
            values[:, 0] = 0.1
        else:
            values = scores(rng, design, np.full(systems, 0.3), "reciprocal ranks")
        (found,) = rank_ranges(values, labels, seed=at)
        wrong.append(bool(found.better.any()))
    return wrong, np.zeros(n, bool)


# -- Judges, annotators, repetitions, correlation --------------------------------------------------


def verdicts(rng: Generator, right: Flags, judge: tuple[float, float]) -> Values:
    """Verdicts of a judge with this sensitivity and specificity."""
    said = np.where(right, rng.random(right.shape) < judge[0], rng.random(right.shape) >= judge[1])
    return said.astype(float)


def right_answers(
    rng: Generator, rate: float, sizes: Sequence[int], icc: float
) -> tuple[Flags, Values | None]:
    """Which answers are right, and their haystack; each its own where all sizes are 1."""
    clusters = None if max(sizes) == 1 else np.repeat(np.arange(len(sizes)), sizes)
    chances = np.full(len(sizes), rate)
    if clusters is not None:
        chances = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), len(sizes))[clusters]
    return rng.random(len(chances)) < chances, clusters


def kappa(
    rng: Generator, n: int, *, sizes: Sequence[int], rate: float, judge: tuple[float, float]
) -> Found:
    """Cohen's kappa of a judge and people."""
    both = rate * judge[0] + (1 - rate) * judge[1]
    yes = rate * judge[0] + (1 - rate) * (1 - judge[1])
    chance = rate * yes + (1 - rate) * (1 - yes)
    true = (both - chance) / (1 - chance)
    wrong, flagged = [], []
    for _ in range(n):
        right, clusters = right_answers(rng, rate, sizes, 1 / 7)
        found = cohens_kappa(right, verdicts(rng, right, judge), clusters)
        wrong.append(found.measurable and not found.low <= true <= found.high)
        flagged.append(bool(found.note))
    return wrong, flagged


def alpha(rng: Generator, n: int, *, queries: int) -> Found:
    """Krippendorff's ordinal alpha of two annotators, who grade 8 documents a query."""
    true = 0.7222

    def guess(rate: Values) -> Values:
        return np.where(rng.random((queries, 8)) < rate, rng.integers(1, 4, (queries, 8)), 0)

    wrong, flagged = [], []
    for _ in range(n):
        rate, skill = rng.beta(1, 3, (queries, 1)), rng.beta(8, 2, (queries, 1))
        truth = guess(rate)
        both = [np.where(rng.random((queries, 8)) < skill, truth, guess(rate)) for _ in range(2)]
        found = krippendorff_alpha(np.stack(both).reshape(2, -1), np.repeat(np.arange(queries), 8))
        wrong.append(not found.low <= true <= found.high)
        flagged.append(bool(found.note))
    return wrong, flagged


def behind_judge(
    rng: Generator,
    n: int,
    *,
    sizes: Sequence[int],
    rate: float,
    people: int,
    corrected: bool = False,
    icc: float = 1 / 7,
) -> Found:
    """The rate of right answers behind a judge, with people's labels of a sample."""
    wrong, flagged = [], []
    for _ in range(n):
        right, clusters = right_answers(rng, rate, sizes, icc)
        said = verdicts(rng, right, (0.95, 0.9))
        seen = rng.permutation(len(right)) < people
        if corrected:
            found = corrected_rate(said, _errors(said[seen], right[seen]), clusters)
        else:
            found = prediction_powered(said, np.where(seen, right, np.nan), clusters)
        wrong.append(not (found.low or 0.0) <= rate <= (1.0 if found.high is None else found.high))
        flagged.append(bool(found.note))
    return wrong, flagged


def difference_behind_judge(
    rng: Generator, n: int, *, sizes: Sequence[int], people: int, biased: bool = False
) -> Found:
    """Two systems that are right in .9 and .95, mostly on the same questions; with `biased` both in
    .5, under a judge that favours the second."""
    rates = (0.5, 0.5) if biased else (0.9, 0.95)
    wrong, flagged = [], []
    for _ in range(n):
        chance = rng.random(sum(sizes))
        clusters = None if max(sizes) == 1 else np.repeat(np.arange(len(sizes)), sizes)
        a = chance < rates[0]
        b = np.where(rng.random(len(a)) < 0.9, chance, rng.random(len(a))) < rates[1]
        of_a = verdicts(rng, a, (0.8, 0.9) if biased else (0.95, 0.9))
        of_b = verdicts(rng, b, (0.95, 0.8) if biased else (0.95, 0.9))
        known = np.where(rng.permutation(len(a)) < people, b.astype(float) - a, np.nan)
        found = prediction_powered_difference(of_b - of_a, known, clusters)
        wrong.append(not (found.low or 0) <= rates[1] - rates[0] <= (found.high or 0))
        flagged.append(bool(found.note))
    return wrong, flagged


def _errors(said: Values, right: Flags) -> Errors:
    mine = said == 1
    pairs = ((mine, right), (~mine, right), (~mine, ~right), (mine, ~right))
    return Errors(*(int((a & b).sum()) for a, b in pairs))


def repeated(rng: Generator, n: int, *, repeats: int) -> Found:
    """Whether a second experiment lies within 1.96 sqrt(2) of the deviation that is printed."""
    questions = rng.random((100, 1))
    wrong = []
    for _ in range(n):
        one, other = (questions + rng.normal(0, 0.4, (100, repeats)) for _ in range(2))
        found = variance_components(one)
        apart = abs(float(one.mean() - other.mean()))
        wrong.append(found is None or apart > 1.96 * np.sqrt(2) * found.of_experiment)
    return wrong, np.zeros(n, bool)


def correlated(rng: Generator, n: int, *, size: int, rate: float, r: float) -> Found:
    """Pearson's r of two scores of 0 and 1."""
    both = rate * rate + r * rate * (1 - rate)
    p = [both, rate - both, rate - both, 1 - 2 * rate + both]
    wrong, flagged = [], []
    for _ in range(n):
        kind = rng.choice(4, size, p=p)
        found = correlations(kind % 2 == 0, kind < 2, resamples=400)["pearson"]
        told = found.low is not None and found.high is not None
        wrong.append(told and not found.low <= r <= found.high)
        flagged.append(bool(found.note))
    return wrong, flagged


def split_looked_at(rng: Generator, n: int) -> Found:
    """A split that is as planned, looked at after every unit of 20,000."""
    alarms = [sample_ratio(rng.random(20_000) < 0.5).mismatch for _ in range(n)]
    return alarms, np.zeros(n, bool)


# -- Systems in use --------------------------------------------------------------------------------


def two_arms(rng: Generator, n: int, *, metric: str, split: float) -> Found:
    """An A/B test of 4,000 units of equal systems, looked at after every unit."""
    values, in_a = traffic.two_arms(rng, metric, n, 4_000, split, changed=False)
    return traffic.always_p(values, in_a, split).min(axis=1) <= 0.05, np.zeros(n, bool)


def timeouts(rng: Generator, n: int, *, shape: str) -> Found:
    """Equal means of seconds, of which one arm has rare time-outs."""
    values, in_a = traffic.timeouts(rng, shape, n, 4_000)
    p = traffic.always_p(values, in_a, 0.5, traffic.SHAPES[shape][1])
    return p.min(axis=1) <= 0.05, np.zeros(n, bool)


def failures(rng: Generator, n: int, *, more: int) -> Found:
    """Systems that fail alike, of which users of one make more requests."""
    wrong = []
    for _ in range(n):
        in_a = rng.random(600) < 0.5
        requests = np.where(in_a, 1, more)
        p = traffic.always_p(rng.binomial(requests, 0.1) / requests, in_a)
        wrong.append(bool(p.min() <= 0.05))
    return wrong, np.zeros(n, bool)


def returning(rng: Generator, n: int, *, pattern: str) -> Found:
    """Users who come back, 5,000 records, looked at twenty times."""
    found = [traffic.user_test(rng, pattern, "click", 5_000)[3] <= 0.05 for _ in range(n)]
    return found, np.zeros(n, bool)


def monitored(rng: Generator, n: int, *, kind: str) -> Found:
    """Half a year of traffic without a change, watched by day."""
    streams = (by_hours(KINDS[kind](rng, DAYS * A_DAY), A_DAY) for _ in range(n))
    found = [alarmed(PeriodTest(PERIODS["day"], 0.05, True), one) for one in streams]
    return found, np.zeros(n, bool)


ONE_HUGE, PARETO = SIZES["1 of 180, 9 of 5"], SIZES["50, Pareto's"]
MIXED = SIZES["1 of 180, 2 of 90, 20 of 5"]
_HAYSTACKS = "95% intervals of a mean over haystacks"
_QUERIES = "95% intervals of a mean over queries"
_TESTS = "tests of two systems without a difference"
_EQUIVALENT = "equivalence tests of systems that differ by exactly the margin"
_FAMILIES = "families of tests without a difference"
_BOARDS = "boards of equal systems"
_KAPPA = "95% intervals of agreement"
_JUDGED = "95% intervals of a rate, or a difference, behind a judge"
_IN_USE = "A/B tests looked at all the time, and monitors, without a change"
_OTHERS = "other 95% intervals"
_FOUND = np.array([0.4, 0.2, 0.12, 0.1, 0.08, 0.1])
_LONE = [1] * 500


def _cases() -> Iterator[Case]:
    for name, sizes, mean, icc, before in (
        ("180 and nine of 5, mean 0.6, correlation 0", ONE_HUGE, 0.6, 0.0, "21.0%"),
        ("180 and nine of 5, mean 0.6, correlation 0.1", ONE_HUGE, 0.6, 0.1, "64.2%"),
        ("180 and nine of 5, mean 0.6, correlation 0.5", ONE_HUGE, 0.6, 0.5, "83.6%"),
        ("fifty of Pareto's sizes, mean 0.6, correlation 0.1", PARETO, 0.6, 0.1, "10.7%"),
        ("fifty of Pareto's sizes, mean 0.6, correlation 0.5", PARETO, 0.6, 0.5, "12.6%"),
        ("forty of 20, mean 0.9, correlation 0.1", SIZES["40 of 20"], 0.9, 0.1, "6.4%"),
        ("150 log-normal, 0.05, correlation 0.5", SIZES["150, log-normal"], 0.05, 0.5, "9.8%"),
        ("sixty of 10, mean 0.95, correlation 0.7", np.full(60, 10), 0.95, 0.7, ""),
    ):
        draw = partial(mean_of_clusters, sizes=sizes, mean=mean, icc=icc)
        yield Case(_HAYSTACKS, name, draw, 2000, before)
    for size, name, values, p, before in (
        (40, "reciprocal ranks, 95% of them 0", RANKS, 0.05 * _FOUND, "26.3%"),
        (65, "reciprocal ranks, 95% of them 0", RANKS, 0.05 * _FOUND, "17.6%"),
        (65, "3% are 1 and 17% are 0.1", np.array([1, 0.1]), np.array([0.03, 0.17]), "13.7%"),
        (65, "2% are 1 and 50% are 0.1", np.array([1, 0.1]), np.array([0.02, 0.5]), "23.6%"),
        (5, "0 or 1, mean 0.95", np.array([1.0]), np.array([0.95]), "78.1%"),
    ):
        draw = partial(mean_of_singles, size=size, values=values, p=p)
        yield Case(_QUERIES, f"{size} queries, {name}", draw, 2000, before)
    huge = partial(t_test, sizes=ONE_HUGE, icc=0.5)
    yield Case(_TESTS, "t, 180 and nine of 5, correlation 0.5", huge, 2000, "82.6%")
    mixed = partial(t_test, sizes=MIXED, icc=0.1)
    yield Case(_TESTS, "t, 180, two of 90, twenty of 5, correlation 0.1", mixed, 2000, "20.5%")
    for haystacks in (2, 3, 4, 6, 9):
        name = f"{haystacks} haystacks of 50, each better or worse as a whole"
        yield Case(_TESTS, name, partial(whole_haystacks, haystacks=haystacks), 2000)
    for units, spread, before in (((4, 30), (1, 0.2), "13%"), ((20, 80), (3, 1), "")):
        name = f"unpaired, {units[0]} haystacks and {units[1]} of less spread"
        yield Case(_TESTS, name, partial(unpaired, units=units, spread=spread), 2000, before)
    for size, share, before in ((40, 0.1, "47.6%"), (300, 0.05, "21.3%")):
        pairs = partial(equivalent_pairs, size=size, share=share, rare=True)
        name = f"{size} pairs, {100 * share:.0f}% differ, a tenth by ten times as much"
        yield Case(_EQUIVALENT, name, pairs, 2000, before)
    for name, sizes, margin, icc, before in (
        ("180, two of 90, twenty of 5, correlation 0.5", MIXED, 0.3, 0.5, "19.0%"),
        ("fifty of Pareto's sizes, correlation 0.5", PARETO, 0.3, 0.5, "15.3%"),
        ("150 log-normal, correlation 0.3", SIZES["150, log-normal"], 0.05, 0.3, "11.9%"),
        ("ten of 30, few of them differ", np.full(10, 30), 0.05, 0.3, "34 to 51%"),
        ("ten of 30, one in five of them differs", np.full(10, 30), 0.05, 0.7, "34 to 51%"),
    ):
        draw = partial(equivalent_haystacks, sizes=sizes, margin=margin, icc=icc)
        yield Case(_EQUIVALENT, name, draw, 1000, before)
    for haystacks, size, before in ((0, 300, "16.8%"), (10, 30, "13.6%"), (6, 50, "")):
        name = f"{haystacks} haystacks of {size}" if haystacks else f"{size} questions"
        draw = partial(compared, haystacks=haystacks, size=size)
        yield Case(_FAMILIES, f"compare, five slices, three metrics, {name}", draw, 500, before)
    for haystacks, size, before in ((0, 300, "37 to 58%"), (10, 30, ""), (6, 50, "50%")):
        name = f"{haystacks} haystacks of {size}" if haystacks else f"{size} questions"
        name = f"a difference of `detectable` is not shown, {name}: 20 claimed"
        draw = partial(undetected, haystacks=haystacks, size=size)
        yield Case(_FAMILIES, name, draw, 500, before, 20.0)
    for haystacks, size, before in ((0, 65, "4.0%"), (0, 300, "5.7%"), (50, 6, "7.2%")):
        name = f"{haystacks} haystacks of {size}" if haystacks else f"{size} questions"
        draw = partial(gated, haystacks=haystacks, size=size)
        yield Case(_FAMILIES, f"gate of 25 rules, {name}", draw, 200, before)
    for systems, haystacks, size, draws in (
        (12, 0, 65, 1000),
        (12, 10, 22, 1000),
        (50, 0, 65, 200),
    ):
        name = f"{haystacks} haystacks of {size}" if haystacks else f"{size} questions"
        draw = partial(board, systems=systems, haystacks=haystacks, size=size)
        yield Case(_BOARDS, f"{systems} systems, {name}, reciprocal ranks", draw, draws)
    for systems, size in ((2, 20), (2, 65), (2, 300), (12, 65), (12, 100), (12, 300)):
        draw = partial(board, systems=systems, haystacks=0, size=size, skew=True)
        name = f"{systems} systems, {size} questions, one 0.1 always, others 1 in a tenth"
        yield Case(_BOARDS, name, draw, 1000)
    for name, counts, rate, judge, before in (
        ("50 answers, 0.9 right, judge .95, .9", [1] * 50, 0.9, (0.95, 0.9), "15%"),
        ("50 answers, 0.95 right, judge .99, .97", [1] * 50, 0.95, (0.99, 0.97), "65%"),
        ("15 answers, 0.6 right, judge .95, .9", [1] * 15, 0.6, (0.95, 0.9), ""),
        ("ten haystacks of 5, 0.8 right, judge .99, .97", [5] * 10, 0.8, (0.99, 0.97), "48%"),
        ("ten haystacks of 40, 0.95 right, judge .6, .95", [40] * 10, 0.95, (0.6, 0.95), ""),
    ):
        draw = partial(kappa, sizes=counts, rate=rate, judge=judge)
        yield Case(_KAPPA, f"kappa, {name}", draw, 1000, before)
    for queries, before in ((5, "23%"), (10, "11%"), (40, "6%")):
        yield Case(
            _KAPPA, f"alpha, {queries} queries", partial(alpha, queries=queries), 500, before
        )
    ten = [50] * 10
    for name, counts, rate, people, icc, before in (
        ("500 answers, 0.5 right, 30 judged", _LONE, 0.5, 30, 0.0, ""),
        ("500 answers, 0.9 right, 100 judged", _LONE, 0.9, 100, 0.0, ""),
        ("fifty haystacks of 10, 0.9 right, 60 judged", [10] * 50, 0.9, 60, 0.3, ""),
        ("ten haystacks of 50, 0.9 right, 200 judged, correlation 0.3", ten, 0.9, 200, 0.3, "13%"),
        (
            "ten haystacks of 50, 0.97 right, 200 judged, correlation 0.3",
            ten,
            0.97,
            200,
            0.3,
            "16%",
        ),
        ("two haystacks of 60 and 90, 0.75 right, 75 judged", [60, 90], 0.75, 75, 0.2, ""),
    ):
        for corrected in (False, True):
            draw = partial(
                behind_judge, sizes=counts, rate=rate, people=people, icc=icc, corrected=corrected
            )
            way = "corrected" if corrected else "with people"
            yield Case(_JUDGED, f"{way}, {name}", draw, 500, "" if corrected else before)
    for name, counts, people, biased in (
        ("500 questions, 20 judged", _LONE, 20, False),
        ("500 questions, 100 judged", _LONE, 100, False),
        ("ten haystacks of 50, 50 judged", ten, 50, False),
        ("500 questions, 100 judged, a judge that favours one system", _LONE, 100, True),
    ):
        draw = partial(difference_behind_judge, sizes=counts, people=people, biased=biased)
        yield Case(_JUDGED, f"difference with people, {name}", draw, 500)
    for size, rate, r in ((60, 0.02, 0.8), (400, 0.05, 0.0), (200, 0.2, 0.3)):
        draw = partial(correlated, size=size, rate=rate, r=r)
        before = {0.02: "62%", 0.05: "37%"}.get(rate, "")
        name = f"r of two scores that are 1 in {100 * rate:.0f}% of {size}, true r {r}"
        yield Case(_OTHERS, name, draw, 200, before)
    for repeats in (3, 5):
        draw = partial(repeated, repeats=repeats)
        yield Case(_OTHERS, f"{repeats} repetitions again, within what is printed", draw, 2000)
    for metric, split, before in (
        ("0 or 1, mean 0.5", 0.5, "36.6%"),
        ("recall in thirds", 0.1, "41.8%"),
        ("reciprocal ranks", 0.5, "38.4%"),
    ):
        draw = partial(two_arms, metric=metric, split=split)
        yield Case(_IN_USE, f"{metric}, {100 * split:.0f}% in one arm", draw, 250, before)
    for shape, before in zip(traffic.SHAPES, ("", "", "89.6%"), strict=True):
        draw = partial(timeouts, shape=shape)
        yield Case(_IN_USE, f"equal means of seconds, time-outs of {shape}", draw, 250, before)
    for more, before in ((3, ""), (10, "100.0%")):
        name = f"equal failure rates, {more} times the requests per user"
        yield Case(_IN_USE, name, partial(failures, more=more), 250, before)
    for pattern in ("power law", "rich get richer"):
        name = f"users who come back, {pattern}"
        yield Case(_IN_USE, name, partial(returning, pattern=pattern), 250)
    name = "sample ratio, looked at after every unit: 0.1 claimed"
    yield Case(_IN_USE, name, split_looked_at, 2000, "1.95%", 0.1)
    for kind, before in (
        ("day and night, ±0.05", "94.0%"),
        ("popularity of the day", "86.0%"),
        ("drift from hour to hour", "84.0%"),
    ):
        yield Case(_IN_USE, f"monitor by day, {kind}", partial(monitored, kind=kind), 50, before)


CASES = tuple(_cases())


def table(cases: Sequence[Case], share: float) -> Iterator[str]:
    """The tables, by claim."""
    for claim in dict.fromkeys(case.claim for case in cases):
        yield f"\n**{claim[0].upper()}{claim[1:]}**\n"
        yield "| case | draws | before | wrong | flagged | wrong without a flag | verdict |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for case in cases:
            if case.claim == claim:
                yield case.row(share)


def main() -> None:
    """Writes the file, or prints the chosen cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the draws (1.0)")
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this word; prints")
    options = parser.parse_args()
    chosen = [case for case in CASES if options.only in f"{case.claim} {case.name}"]
    lines = []
    for line in table(chosen, options.share):
        print(line, flush=True)
        lines.append(line)
    if options.only:
        return
    text = "\n".join(lines)
    TABLES.write_text(f"# Claims\n\nMade by `python -m tests.benchmarks.claims`.\n{text}\n")


if __name__ == "__main__":
    main()
