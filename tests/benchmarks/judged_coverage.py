"""How often the intervals behind a judge hold the truth; writes judged.md beside this file.

python tests/benchmarks/judged_coverage.py [DRAWS]
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

from harness.stats.judged import (
    Errors,
    JudgedRate,
    corrected_difference,
    corrected_rate,
    prediction_powered,
    prediction_powered_difference,
)

N = 500
CLUSTERS = {
    "500 alone": None,
    "50 of 30": [30] * 50,
    "10 of 50": [50] * 10,
    "one of 180, ten of 35": [180, *[35] * 10],
}

JUDGES = ((0.95, 0.9), (0.8, 0.8))
"""Sensitivity and specificity."""


class Tally:
    """How often intervals could be told and held the truth, and how wide they were."""

    def __init__(self) -> None:
        self.told, self.held, self.width = 0, 0, 0.0

    def add(self, found: JudgedRate, truth: float) -> None:
        """One more."""
        if found.low is not None and found.high is not None:
            self.told += 1
            self.held += found.low <= truth <= found.high
            self.width += found.high - found.low

    @property
    def share(self) -> float:
        """Of intervals that held the truth."""
        return self.held / max(1, self.told)

    def __str__(self) -> str:
        return f"{self.share:.3f} | {self.width / max(1, self.told):.3f}"


def verdicts(draw: np.random.Generator, truth: np.ndarray, se: float, sp: float) -> np.ndarray:
    """What a judge with these errors says."""
    n = len(truth)
    return np.where(truth, draw.random(n) < se, draw.random(n) >= sp).astype(float)


def errors(said: np.ndarray, truth: np.ndarray) -> Errors:
    """As counted where people judged."""
    mine = said == 1
    pairs = ((mine, truth), (~mine, truth), (~mine, ~truth), (mine, ~truth))
    return Errors(*(int((a & b).sum()) for a, b in pairs))


def chances(draw: np.random.Generator, rate: float, sizes: list[int] | None) -> np.ndarray:
    """Of each answer to be right: the same for all, or of its cluster's own rate."""
    if sizes is None:
        return np.full(N, rate)
    return np.repeat(draw.beta(rate * 6, (1 - rate) * 6, len(sizes)), sizes)


def of_rates(
    right: float, se: float, sp: float, people: int, sizes: list[int] | None, draws: int
) -> tuple[Tally, Tally]:
    """Both intervals of a rate; corrected ones where they can be told."""
    draw = np.random.default_rng(7)
    clusters = None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    found = Tally(), Tally()
    for _ in range(draws):
        rates = chances(draw, right, sizes)
        truth = draw.random(len(rates)) < rates
        said = verdicts(draw, truth, se, sp)
        seen = draw.choice(len(truth), people, replace=False)
        by_people = np.full(len(truth), np.nan)
        by_people[seen] = truth[seen]
        known = errors(said[seen], truth[seen])
        found[0].add(corrected_rate(said, known, clusters), right)
        found[1].add(prediction_powered(said, by_people, clusters), right)
    return found


def of_differences(
    rates: tuple[float, float],
    alike: float,
    of_a: tuple[float, float],
    of_b: tuple[float, float],
    people: int,
    sizes: list[int] | None,
    draws: int,
) -> tuple[Tally, Tally]:
    """Both intervals of a difference: two systems that are right of the same questions in a share
    `alike` of them, under a judge with these errors on each."""
    draw = np.random.default_rng(7)
    clusters = None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    found = Tally(), Tally()
    for _ in range(draws):
        of_each = [chances(draw, rate, sizes) for rate in rates]
        n = len(of_each[0])
        first = draw.random(n)
        second = np.where(draw.random(n) < alike, first, draw.random(n))
        a, b = first < of_each[0], second < of_each[1]
        said_a, said_b = verdicts(draw, a, *of_a), verdicts(draw, b, *of_b)
        seen = draw.choice(n, people, replace=False)
        by_people = np.full(n, np.nan)
        by_people[seen] = b[seen].astype(float) - a[seen]
        known = errors(
            np.concatenate([said_a[seen], said_b[seen]]), np.concatenate([a[seen], b[seen]])
        )
        difference = rates[1] - rates[0]
        found[0].add(corrected_difference(said_b - said_a, known, clusters), difference)
        found[1].add(
            prediction_powered_difference(said_b - said_a, by_people, clusters), difference
        )
    return found


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    lines = [
        "# Intervals behind a judge",
        "",
        "Share of 95% intervals that hold the true rate, and their mean width: `corrected_rate` by",
        "sensitivity and specificity as counted on the people's sample, and `prediction_powered`.",
        f"{draws} draws a row; in clusters the rate of each is drawn from a beta distribution.",
        "Made by `tests/benchmarks/judged_coverage.py`.",
        "",
        "| answers | right | se, sp | people | corrected | width | with people | width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    least = [1.0, 1.0]
    for (name, sizes), right, (se, sp), people in product(
        CLUSTERS.items(), (0.1, 0.5, 0.9), JUDGES, (30, 100)
    ):
        a, b = of_rates(right, se, sp, people, sizes, draws)
        least = [min(least[0], a.share), min(least[1], b.share)]
        lines.append(f"| {name} | {right} | {se}, {sp} | {people} | {a} | {b} |")
    lines += ["", f"The least of each: {least[0]:.3f} and {least[1]:.3f}."]
    lines += [
        "",
        "## Differences of two systems",
        "",
        "`corrected_difference` and `prediction_powered_difference`; `alike` is the share of",
        "questions on which the two stand or fall together.",
        "",
        "| questions | right | alike | se, sp | people | corrected | width | with people | width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    least = [1.0, 1.0]
    for (name, sizes), rates, alike, judge, people in product(
        CLUSTERS.items(), ((0.5, 0.5), (0.5, 0.6), (0.9, 0.95)), (0.0, 0.9), JUDGES, (30, 100)
    ):
        a, b = of_differences(rates, alike, judge, judge, people, sizes, draws)
        least = [min(least[0], a.share), min(least[1], b.share)]
        about = f"{name} | {rates[0]}, {rates[1]} | {alike} | {judge[0]}, {judge[1]} | {people}"
        lines.append(f"| {about} | {a} | {b} |")
    lines += ["", f"The least of each: {least[0]:.3f} and {least[1]:.3f}."]
    a, b = of_differences((0.5, 0.5), 0.5, (0.8, 0.9), (0.95, 0.8), 100, None, draws)
    lines += [
        "",
        "A judge that favours the second system (se .8 and .95, sp .9 and .8), both right in half",
        f"of 500 questions, 100 of them judged by people: corrected {a.share:.3f}, with people "
        f"{b.share:.3f}.",
    ]
    text = "\n".join(lines) + "\n"
    Path(__file__).with_name("judged.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
