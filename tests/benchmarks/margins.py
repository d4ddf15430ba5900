"""How often a drop of exactly the margin is shown to be larger, or smaller, by simulation.

    python tests/benchmarks/margins.py [--draws 2000] > tests/benchmarks/margins.md

`gate` is the package's own test (`harness.stats.margin`), t that of `harness.stats.paired`, for
comparison.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator

from harness.stats.clusters import Ints, Values, to_clusters
from harness.stats.intervals import t_above
from harness.stats.margin import margin_tests

Draw = Callable[[Generator, int, float], Values]
SINGLE: dict[str, Draw] = {
    "rare drops of 1": lambda rng, n, m: np.where(rng.random(n) < m, 1.0, 0.0),
    "drops and rises of 1": lambda rng, n, m: rng.choice(
        [1.0, 0.0, -1.0], n, p=[m + 0.04, 0.92 - m, 0.04]
    ),
    "normal": lambda rng, n, m: np.clip(rng.normal(m, 0.2, n), 2 * m - 1, 1),
    "rare drops of 1, else small rises": lambda rng, n, m: np.where(
        rng.random(n) < m + 0.03, 1.0, -0.03 / (0.97 - m)
    ),
    "rare rises of 1, else small drops": lambda rng, n, m: np.where(
        rng.random(n) < 0.03, -1.0, (m + 0.03) / 0.97
    ),
}
EFFECTS: dict[str, Callable[[Generator, int], Values]] = {
    "no effect of haystacks": lambda rng, g: np.zeros(g),
    "normal effects": lambda rng, g: np.clip(rng.normal(0, 0.05, g), -0.2, 0.2),
    "effects of -0.1 or 0.1": lambda rng, g: rng.choice([-0.1, 0.1], g),
    "skewed effects": lambda rng, g: rng.exponential(0.03, g).clip(0, 0.5) - 0.03,
}
SIZES = {
    "6 of 50": [50] * 6,
    "10 of 30": [30] * 10,
    "50 of 6": [6] * 50,
    "10: one of 180, nine of 5": [180, *[5] * 9],
}


def haystacks(rng: Generator, effects: Values, labels: Ints, m: float) -> Values:
    """Drops and rises of 1, of whole haystacks that drop by more or less than the margin."""
    up, down = (0.2 + np.maximum(sign * (m + effects), 0)[labels] for sign in (1, -1))
    luck = rng.random(len(labels))
    return np.where(luck < up, 1.0, np.where(luck < up + down, -1.0, 0.0))


def by_t(values: Values, labels: Ints | None, m: float) -> tuple[bool, bool]:
    """Whether t shows a mean above, or below, the margin."""
    grouped = to_clusters(values, labels)
    mean, error = float(grouped.means[0]), float(grouped.standard_errors[0])
    if not error > 0:
        return mean > m, mean < m
    apart, df = (mean - m) / error, float(grouped.degrees[0])
    return t_above(apart, df) <= 0.05, t_above(-apart, df) <= 0.05


def row(draw: Callable[[Generator], Values], labels: Ints | None, m: float, draws: int) -> str:
    """The four rates of one design, in per cent."""
    rng, counts = np.random.default_rng(1), np.zeros(4)
    for _ in range(draws):
        values = draw(rng)
        (found,) = margin_tests(values, [m], labels, resamples=2_000)
        counts += (found.p_above <= 0.05, found.p_below <= 0.05, *by_t(values, labels, m))
    return " | ".join(f"{100 * count / draws:.1f}" for count in counts)


def rows(draws: int) -> Iterator[str]:
    """A line a design."""
    for m in (0.02, 0.1):
        for name, draw in SINGLE.items():
            for n in (20, 65, 300):
                rates = row(lambda rng, d=draw, n=n, m=m: d(rng, n, m), None, m, draws)
                yield f"| {m} | {name}, {n} queries | {rates} |"
    for name, effect in EFFECTS.items():
        for size, sizes in SIZES.items():
            labels = np.repeat(np.arange(len(sizes)), sizes)
            g = len(sizes)
            rates = row(
                lambda rng, e=effect, x=labels, g=g: haystacks(rng, e(rng, g), x, 0.1),
                labels,
                0.1,
                draws,
            )
            yield f"| 0.1 | {name}, {size} | {rates} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=2_000)
    draws = parser.parse_args().draws
    error = 100 * np.sqrt(0.05 * 0.95 / draws)
    print("# Drops of exactly the margin\n")
    print(
        f"Per cent of {draws:,} samples in which a true drop of exactly the margin is shown to be\n"
        f"larger (`fail`) or smaller (`pass`): at most 5 (Monte Carlo error {error:.1f} points).\n"
        "Made by `python tests/benchmarks/margins.py`.\n"
    )
    print("| margin | drops | gate: fail | gate: pass | t: fail | t: pass |")
    print("|---:|---|---:|---:|---:|---:|")
    for text in rows(draws):
        print(text, flush=True)


if __name__ == "__main__":
    main()
