"""How often intervals hold the true mean, and tests err, by simulation: why they are what they are.

    python tests/benchmarks/interval_coverage.py [--datasets 2000] > tests/benchmarks/coverage.md

Each line draws many data sets whose true mean is known. `auto` is what the package chooses;
`bootstrap` and `t` are the package's too, BCa and the older cluster t (by the number of clusters,
without CR2) are here to be compared with.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from harness.stats.clusters import Clusters, Ints, Values, to_clusters
from harness.stats.intervals import MeanInterval, cluster_intervals, t_quantile
from harness.stats.paired import equivalence, paired_t
from harness.stats.unpaired import compare_unpaired

RESAMPLES = 1_000
FEW = 20
Z = NormalDist().inv_cdf(0.975)
Bounds = tuple[Values, Values]

SIZES: dict[str, Ints] = {
    "10, LoCoMo's": np.array([199, 105, 193, 260, 242, 158, 190, 239, 196, 204]),
    "5 of 20": np.full(5, 20),
    "12 of 27": np.full(12, 27),
    "40 of 20": np.full(40, 20),
    "200 of 5": np.full(200, 5),
    "1 of 180, 9 of 5": np.array([180, *[5] * 9]),
    "1 of 180, 2 of 90, 20 of 5": np.array([180, 90, 90, *[5] * 20]),
    "50, Pareto's": np.ceil(5 / np.linspace(0.99, 0.01, 50) ** 0.8).astype(int),
    "150, log-normal": np.ceil(
        np.exp(
            2 + 0.7 * np.array([NormalDist().inv_cdf(p) for p in np.linspace(0.005, 0.995, 150)])
        )
    ).astype(int),
}
"""Questions in each haystack. Pareto's of index 1.25: the largest holds a fifth of all."""


def clustered(
    generator: np.random.Generator, datasets: int, sizes: Ints, mean: float, icc: float
) -> Clusters:
    """Data sets (columns) of clusters with values of 0 and 1: beta-binomial counts."""
    rate = np.full((len(sizes), datasets), mean)
    if icc:
        scale = 1 / icc - 1
        rate = generator.beta(mean * scale, (1 - mean) * scale, rate.shape)
    sums = generator.binomial(sizes[:, None], rate).astype(float)
    return Clusters(sums, np.broadcast_to(sizes[:, None], sums.shape).astype(float), True)


def single(values: Values) -> Clusters:
    """Data sets (columns) of independent observations."""
    return Clusters(values, np.ones(values.shape), False)


def ends(found: list[MeanInterval]) -> Bounds:
    """Low and high ends."""
    return np.array([i.low for i in found]), np.array([i.high for i in found])


def bootstrap_means(units: Clusters) -> Values:
    """Means of samples of the clusters with replacement, shape (RESAMPLES, data sets)."""
    n = len(units.sums)
    drawn = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    times = np.stack([np.bincount(one, minlength=n) for one in drawn]).astype(float)
    return np.asarray((times @ units.sums) / (times @ units.counts))


def bca(units: Clusters) -> Bounds:
    """Bias-corrected and accelerated (Efron 1987), acceleration from the jackknife."""
    sampled, means = np.sort(bootstrap_means(units), axis=0), units.means
    below = ((sampled < means).mean(axis=0) + (sampled <= means).mean(axis=0)) / 2
    inverse, normal = np.vectorize(NormalDist().inv_cdf), np.vectorize(NormalDist().cdf)
    z0 = inverse(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    left_out = (units.sums.sum(0) - units.sums) / (units.counts.sum(0) - units.counts)
    u = left_out.mean(axis=0) - left_out
    squares = np.maximum((u**2).sum(axis=0), 1e-300)
    acceleration = (u**3).sum(axis=0) / (6 * squares**1.5)
    found = []
    for z in (-Z, Z):
        q = normal(z0 + (z0 + z) / (1 - acceleration * (z0 + z)))
        at = np.clip(np.round(q * (RESAMPLES - 1)).astype(int), 0, RESAMPLES - 1)
        found.append(sampled[at, np.arange(len(means))])
    return found[0], found[1]


def plain_t(units: Clusters) -> Bounds:
    """The linearised ratio's t with (clusters - 1) degrees of freedom, whatever their sizes."""
    g, n = len(units.sums), units.counts.sum(axis=0)
    residual = units.sums - units.counts * units.means
    reach = t_quantile(0.975, g - 1) * np.sqrt(g / (g - 1) * (residual**2).sum(axis=0)) / n
    return units.means - reach, units.means + reach


def line(units: Clusters, true: float, bounds: tuple[float, float]) -> str:
    """Coverage in percent and median length by each method, as cells of a Markdown table."""
    chosen = cluster_intervals(units, bounds=bounds)
    booted = np.quantile(bootstrap_means(units), [0.025, 0.975], axis=0)
    by_t = ends(cluster_intervals(units))  # of values without bounds, then cut
    cells = []
    for low, high in (
        (booted[0], booted[1]),
        bca(units),
        plain_t(units),
        (np.maximum(by_t[0], bounds[0]), np.minimum(by_t[1], bounds[1])),
        ends(chosen),
    ):
        held = (low <= true + 1e-12) & (high >= true - 1e-12)
        cells.append(f"{100 * held.mean():.1f} ({np.median(high - low):.3f})")
    approximate = np.array([one.approximate for one in chosen])
    sure = held[~approximate]
    cells += [
        f"{100 * approximate.mean():.0f}",
        f"{100 * sure.mean():.1f}" if len(sure) >= FEW else "-",
        f"{100 * (held | approximate).mean():.1f}",
    ]
    return " | ".join(cells)


HEADER = """\
| {} | bootstrap | BCa | t, units - 1 | t | auto | approximate | others hold | hold or approximate |
|---|---:|---:|---:|---:|---:|---:|---:|---:|"""


def means_of_clusters(generator: np.random.Generator, datasets: int) -> Iterator[str]:
    """Values of 0 and 1 in clusters."""
    yield HEADER.format("clusters, mean, correlation")
    for name, sizes in SIZES.items():
        for mean in (0.6, 0.9, 0.05):
            for icc in (0.0, 0.1, 0.5):
                units = clustered(generator, datasets, sizes, mean, icc)
                yield f"| {name}, {mean}, {icc} | {line(units, mean, (0, 1))} |"
    for number, size, mean, icc in ((60, 10, 0.95, 0.7), (60, 10, 0.05, 0.5), (100, 10, 0.05, 0.5)):
        units = clustered(generator, datasets, np.full(number, size), mean, icc)
        yield f"| {number} of {size}, {mean}, {icc} | {line(units, mean, (0, 1))} |"


RANKS = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10])
_FOUND = np.array([0.4, 0.2, 0.12, 0.1, 0.08, 0.1])


def single_means(generator: np.random.Generator, datasets: int) -> Iterator[str]:
    """Independent observations."""
    yield HEADER.format("observations, values")
    for n in (5, 20, 40, 65, 300):
        for mean in (0.5, 0.95):
            values = generator.binomial(1, mean, (n, datasets)).astype(float)
            yield f"| {n}, 0 or 1, mean {mean} | {line(single(values), mean, (0, 1))} |"
        for zeros in (0.2, 0.8, 0.95):
            values, true = _drawn(generator, RANKS, (1 - zeros) * _FOUND, (n, datasets))
            name = f"reciprocal ranks, {100 * zeros:.0f}% of them 0"
            yield f"| {n}, {name} | {line(single(values), true, (0, 1))} |"
        # Nothing in a sample without a 1 tells that there are any.
        values, true = _drawn(generator, np.array([1, 0.1]), np.array([0.03, 0.17]), (n, datasets))
        yield f"| {n}, 3% are 1, 17% are 0.1 | {line(single(values), true, (0, 1))} |"
    for n in (40, 65, 100, 300):
        values, true = _drawn(generator, np.array([1, 0.1]), np.array([0.02, 0.5]), (n, datasets))
        yield f"| {n}, 2% are 1, 50% are 0.1 | {line(single(values), true, (0, 1))} |"
        values, true = _drawn(generator, np.array([0.1]), np.array([0.8]), (n, datasets))
        yield f"| {n}, 80% are 0.1 | {line(single(values), true, (0, 1))} |"


def differences(generator: np.random.Generator, datasets: int) -> Iterator[str]:
    """Differences of two systems, of which most are 0."""
    yield HEADER.format("pairs, of which differ")
    shares = ((20, 0.3), (80, 0.1), (80, 0.7), (300, 0.05), (300, 0.3), (2000, 0.05))
    for n, share in (*shares, (80, 0.3), (300, 0.1)):
        for name, values in _DIFFERENCES.items():
            chances = np.full(len(values), share / len(values))
            drawn, true = _drawn(generator, values, chances, (n, datasets))
            cells = line(single(drawn), true, (-1, 1))
            yield f"| {n}, {100 * share:.0f}%, {name} | {cells} |"


_DIFFERENCES = {
    "won or lost": np.array([1.0, -1.0]),
    "won": np.array([1.0]),
    "reciprocal ranks won": RANKS,
    "won, a tenth by ten times as much": np.array([1.0, *[0.1] * 9]),
}


def errors_of_equivalence(generator: np.random.Generator, datasets: int) -> Iterator[str]:
    """Systems that differ by exactly the margin, called equivalent."""
    yield "| pairs, of which differ | two t tests | equivalence | no t test |"
    yield "|---|---:|---:|---:|"
    for n, share in ((40, 0.1), (80, 0.1), (80, 0.3), (300, 0.05), (300, 0.3), (2000, 0.05)):
        for name in ("won", "reciprocal ranks won", "won, a tenth by ten times as much"):
            values = _DIFFERENCES[name]
            chances = np.full(len(values), share / len(values))
            drawn, true = _drawn(generator, values, chances, (n, datasets))
            yield f"| {n}, {100 * share:.0f}%, {name} | {_called_equivalent(drawn, true, None)} |"


def errors_of_equivalence_over_clusters(
    generator: np.random.Generator, datasets: int
) -> Iterator[str]:
    """The same over haystacks: differences of 1 with the margin for a mean, 0 otherwise."""
    yield "| clusters, margin, correlation | two t tests | equivalence | no t test |"
    yield "|---|---:|---:|---:|"
    for name, sizes in SIZES.items():
        if len(sizes) < 10:  # never enough to tell
            continue
        labels = np.repeat(np.arange(len(sizes)), sizes)
        for margin, icc in (
            (0.3, 0.1),
            (0.3, 0.5),
            (0.2, 0.3),
            (0.2, 0.5),
            (0.05, 0.1),
            (0.05, 0.3),
        ):
            drawn = _observations(generator, datasets, sizes, labels, icc, margin)
            yield f"| {name}, {margin}, {icc} | {_called_equivalent(drawn, margin, labels)} |"
    for number, size, often, share in (
        (10, 200, 0.1, 0.2),
        (10, 200, 0.05, 0.5),
        (60, 20, 0.05, 0.5),
    ):
        labels = np.repeat(np.arange(number), size)
        rate = np.where(generator.random((number, datasets)) < often, share, 0.01)
        drawn = (generator.random((len(labels), datasets)) < rate[labels]).astype(float)
        margin = often * share + (1 - often) * 0.01
        name = f"{number} of {size}, {share} in {often:.0%} of them and 0.01 in the others"
        yield f"| {name} | {_called_equivalent(drawn, margin, labels)} |"


def _called_equivalent(drawn: Values, true: float, labels: Ints | None) -> str:
    """Cells: percent that t tests and the package call equivalent, and that have no interval."""
    units = to_clusters(drawn, labels)
    reach = t_quantile(0.95, float(units.degrees[0])) * units.standard_errors
    found = equivalence(np.zeros(drawn.shape), drawn, true, labels)
    wrong = np.mean([one.equivalent for one in found])
    unknown = np.mean([bool(one.note) for one in found])
    naive = np.mean(units.means + reach < true)
    return f"{100 * naive:.1f} | {100 * wrong:.1f} | {100 * unknown:.0f}"


def errors_of_tests(generator: np.random.Generator, datasets: int) -> Iterator[str]:
    """Tests of two systems that are alike, and intervals of two groups of the same mean."""
    yield "| clusters, correlation | paired t | older t | unpaired interval misses | approximate |"
    yield "|---|---:|---:|---:|---:|"
    for name, sizes in SIZES.items():
        labels = np.repeat(np.arange(len(sizes)), sizes)
        for icc in (0.0, 0.1, 0.5):
            first, second = (
                _observations(generator, datasets, sizes, labels, icc) for _ in range(2)
            )
            zero = np.zeros(first.shape)
            with np.errstate(invalid="ignore"):
                p = np.array([one.p for one in paired_t(first - second, zero, labels)])
            units = clustered(generator, datasets, sizes, 0.6, icc)
            low, high = plain_t(units)
            older = 100 * (1 - ((low <= 0.6) & (high >= 0.6)).mean())
            groups = compare_unpaired(first, second, labels, labels)
            missed = np.mean([not one.low <= 0 <= one.high for one in groups])
            approximate = np.mean([one.approximate for one in groups])
            yield (
                f"| {name}, {icc} | {100 * (p <= 0.05).mean():.1f} | {older:.1f} | "
                f"{100 * missed:.1f} | {100 * approximate:.0f} |"
            )


def _observations(
    generator: np.random.Generator,
    datasets: int,
    sizes: Ints,
    labels: Ints,
    icc: float,
    mean: float = 0.6,
) -> Values:
    """Values of 0 and 1."""
    rate = np.full((len(sizes), datasets), mean)
    if icc:
        scale = 1 / icc - 1
        rate = generator.beta(mean * scale, (1 - mean) * scale, rate.shape)
    return (generator.random((len(labels), datasets)) < rate[labels]).astype(float)


def _drawn(
    generator: np.random.Generator, values: Values, chances: Values, shape: tuple[int, int]
) -> tuple[Values, float]:
    """Values drawn with these chances, 0 otherwise, and their true mean."""
    drawn = generator.choice([*values, 0.0], shape, p=[*chances, 1 - chances.sum()])
    return drawn, float(values @ chances)


SECTIONS = {
    "Means over haystacks": means_of_clusters,
    "Means over single queries": single_means,
    "Differences": differences,
    "Equivalence: percent of samples in which a difference of exactly the margin is called so": (
        errors_of_equivalence
    ),
    "Equivalence over haystacks: the same": errors_of_equivalence_over_clusters,
    "Tests at 0.05 and unpaired intervals, where nothing differs": errors_of_tests,
}


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--datasets", type=int, default=2_000)
    datasets = parser.parse_args().datasets
    error = 100 * np.sqrt(0.95 * 0.05 / datasets)
    print("# Coverage of 95% intervals, and errors of tests\n")
    print(
        f"Percent of {datasets:,} simulated data sets a line whose interval holds the true mean\n"
        f"(Monte Carlo error {error:.1f} points at 95%), and in brackets the median length.\n"
        "Correlation is that of two questions to one haystack. *auto* is what the package\n"
        "chooses, *approximate* the percentage that it calls so. The next column has how many of\n"
        f"the others hold the mean (- for fewer than {FEW}), the last how many of all\n"
        "hold it or are approximate. A sample that lacks the rare large values of its population\n"
        "is neither approximate nor right, so that where nearly all are approximate the few\n"
        "others may hold seldom. The linearised ratio's t with units - 1 degrees of freedom, and\n"
        "the bootstrap, are what was chosen before.\n"
        "Made by `python tests/benchmarks/interval_coverage.py`.\n"
    )
    warnings.simplefilter("ignore", RuntimeWarning)  # jackknives of one cluster, equal values
    for title, lines in SECTIONS.items():
        print(f"## {title}\n", flush=True)
        for text in lines(np.random.default_rng(1), datasets):
            print(text, flush=True)
        print()
        print(title, "done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
