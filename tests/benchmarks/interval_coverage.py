"""How often a 95% interval holds the true mean, by simulation: why `auto` chooses as it does.

    python tests/benchmarks/interval_coverage.py [--datasets 2000] > tests/benchmarks/coverage.md

Each line draws many data sets whose true mean is known, and counts the intervals that hold it.
`bootstrap`, `t` and `auto` are the package's own; BCa, the studentised (bootstrap-t) and the wild
bootstrap-t are here to be compared with, and are not in the package.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np

from harness.statistics.intervals import unit_intervals
from harness.statistics.resampling import bootstrap_means
from harness.statistics.units import Units, Values

# Questions in each of LoCoMo's ten conversations.
SIZES = (199, 105, 193, 260, 242, 158, 190, 239, 196, 204)
RESAMPLES = 2_000
Z = NormalDist().inv_cdf(0.975)
Bounds = tuple[Values, Values]


def clustered(
    generator: np.random.Generator, datasets: int, g: int, share: float, mean: float, icc: float
) -> Units:
    """Data sets (columns) of `g` clusters with values of 0 and 1: beta-binomial counts."""
    sizes = np.maximum(1, np.round(np.resize(SIZES, g) * share)).astype(int)[:, None]
    rate = np.full((g, datasets), mean)
    if icc:
        scale = 1 / icc - 1
        rate = generator.beta(mean * scale, (1 - mean) * scale, (g, datasets))
    sums = generator.binomial(sizes, rate).astype(float)
    return Units(sums, np.broadcast_to(sizes, sums.shape).astype(float), True)


def single(values: Values) -> Units:
    """Data sets (columns) of independent observations."""
    return Units(values, np.ones(values.shape), False)


def own(units: Units, method: str, bounds: tuple[float, float] | None) -> Bounds:
    """The package's interval."""
    found = unit_intervals(units, method=method, bounds=bounds, resamples=RESAMPLES)
    return np.array([i.low for i in found]), np.array([i.high for i in found])


def bca(units: Units) -> Bounds:
    """Bias-corrected and accelerated (Efron 1987), acceleration from the jackknife."""
    sampled, means = np.sort(bootstrap_means(units, RESAMPLES, 0), axis=0), units.means
    below = ((sampled < means).mean(axis=0) + (sampled <= means).mean(axis=0)) / 2
    inverse, normal = np.vectorize(NormalDist().inv_cdf), np.vectorize(NormalDist().cdf)
    z0 = inverse(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    left_out = (units.sums.sum(0) - units.sums) / (units.counts.sum(0) - units.counts)
    u = left_out.mean(axis=0) - left_out
    squares = np.maximum((u**2).sum(axis=0), 1e-300)
    acceleration = (u**3).sum(axis=0) / (6 * squares**1.5)
    ends = []
    for z in (-Z, Z):
        q = normal(z0 + (z0 + z) / (1 - acceleration * (z0 + z)))
        at = np.clip(np.round(q * (RESAMPLES - 1)).astype(int), 0, RESAMPLES - 1)
        ends.append(sampled[at, np.arange(len(means))])
    return ends[0], ends[1]


def studentised(units: Units, *, wild: bool) -> Bounds:
    """Symmetric bootstrap-t; `wild`: residuals of whole clusters times Webb's six weights."""
    generator = np.random.default_rng(0)
    g, n, mean = len(units.sums), units.counts.sum(axis=0), units.means
    residual = units.sums - mean * units.counts
    if wild:
        six = np.sqrt([0.5, 1.0, 1.5])
        weight = generator.choice(np.concatenate([-six, six]), (RESAMPLES, g))
        shift = weight @ residual / n
        squares = weight**2 @ residual**2 - 2 * shift * (weight @ (residual * units.counts))
        squares += shift**2 * (units.counts**2).sum(axis=0)
    else:
        drawn = generator.multinomial(g, np.full(g, 1 / g), RESAMPLES).astype(float)
        n = drawn @ units.counts
        shift = drawn @ residual / n
        squares = drawn @ residual**2 - 2 * shift * (drawn @ (residual * units.counts))
        squares += shift**2 * (drawn @ units.counts**2)
    error = np.sqrt(np.maximum(squares, 0) * g / (g - 1)) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 1e-12, np.abs(shift) / error, np.where(shift == 0, 0, np.inf))
    reach = np.quantile(t, 0.95, axis=0, method="higher") * units.standard_errors
    return mean - reach, mean + reach


def line(units: Units, true: float, bounds: tuple[float, float]) -> str:
    """Coverage in percent and median length by each method, as cells of a Markdown table."""
    ways: list[Callable[[], Bounds]] = [
        lambda: own(units, "bootstrap", None),
        lambda: bca(units),
        lambda: studentised(units, wild=False),
        lambda: studentised(units, wild=True),
        lambda: own(units, "t", None),
        lambda: own(units, "auto", bounds),
    ]
    cells = []
    for way in ways:
        low, high = way()
        held = 100 * ((low <= true + 1e-12) & (high >= true - 1e-12)).mean()
        cells.append(f"{held:.1f} ({np.median(high - low):.3f})")
    return " | ".join(cells)


HEADER = """\
| {} | bootstrap | BCa | bootstrap-t | wild bootstrap-t | t | auto |
|---|---:|---:|---:|---:|---:|---:|"""


def tables(datasets: int) -> Iterator[str]:
    """Both tables."""
    generator = np.random.default_rng(1)
    yield HEADER.format("clusters, mean size, mean, icc")
    for g in (5, 10, 20, 40, 80):
        for share in (1.0, 0.1):
            for mean in (0.5, 0.9):
                for icc in (0.0, 0.1):
                    units = clustered(generator, datasets, g, share, mean, icc)
                    size = units.counts.mean()
                    name = f"{g}, {size:.0f}, {mean}, {icc}"
                    yield f"| {name} | {line(units, mean, (0, 1))} |"
    yield ""
    yield HEADER.format("observations, values")
    ranks = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 0])
    chances = np.array([0.4, 0.12, 0.08, 0.05, 0.05, 0.1, 0.2])
    for n in (10, 20, 40, 80, 200):
        for mean in (0.5, 0.8, 0.95):
            values = generator.binomial(1, mean, (n, datasets)).astype(float)
            yield f"| {n}, 0 or 1, mean {mean} | {line(single(values), mean, (0, 1))} |"
        values = generator.choice(ranks, (n, datasets), p=chances)
        true = float(ranks @ chances)
        yield f"| {n}, reciprocal ranks | {line(single(values), true, (0, 1))} |"
        values = generator.choice([-1.0, 0.0, 1.0], (n, datasets), p=[0.075, 0.8, 0.125])
        yield f"| {n}, differences of -1, 0, 1 | {line(single(values), 0.05, (-1, 1))} |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", type=int, default=2_000)
    datasets = parser.parse_args().datasets
    error = 100 * np.sqrt(0.95 * 0.05 / datasets)
    print("# Coverage of 95% intervals\n")
    print(
        f"Percent of {datasets:,} simulated data sets a line whose interval holds the true mean\n"
        f"(Monte Carlo error {error:.1f} points at 95%), and in brackets the median length.\n"
        "Cluster sizes are LoCoMo's, or a tenth of them; icc is the correlation of two\n"
        "observations of one cluster. The last column is what the package chooses.\n"
        "Made by `python tests/benchmarks/interval_coverage.py`.\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one-cluster jackknives of the peers
        for text in tables(datasets):
            print(text, flush=True)


if __name__ == "__main__":
    main()
