"""How often a board names a false order, and how wide its ranges of ranks are, by simulation.

    python tests/benchmarks/rank_coverage.py [--boards 500] > tests/benchmarks/ranks.md

Each line draws many boards whose true ranks are known. `flips` is the package's own; beside it, to
be compared with, and not in the package: the authors' way (normal draws with the covariance of the
means), Holm over paired t tests of all pairs, and intervals that do not overlap.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from harness.stats.clusters import Ints, Values, to_clusters
from harness.stats.joint import rank_ranges
from harness.stats.proportions import holm

DRAWS = 999
ALPHA = 0.05
Ranges = tuple[Ints, Ints]
Labels = npt.NDArray[np.int64] | None
Way = Callable[[Values, Labels, int], Ranges]


def by_flips(values: Values, clusters: Labels, seed: int) -> Ranges:
    """The package's ranges."""
    (found,) = rank_ranges(values, clusters, seed=seed)
    return found.best, found.worst


def by_normal_draws(values: Values, clusters: Labels, seed: int) -> Ranges:
    """Mogstad, Romano, Shaikh and Wilhelm's step-down, as csranks has it, pair by pair."""
    mean, covariance = _moments(values, clusters)
    m = len(mean)
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance - 2 * covariance, 0))
    scale = np.divide(1.0, error, out=np.zeros((m, m)), where=error > 1e-12)
    draws = np.random.default_rng(seed).multivariate_normal(
        np.zeros(m), covariance, DRAWS, method="eigh"
    )
    observed = (mean[:, None] - mean) * scale
    left, shown = scale > 0, np.zeros((m, m), bool)
    while left.any():
        weight = scale * left
        largest = np.max([((draws[:, [j]] - draws) * weight[j]).max(axis=1) for j in range(m)], 0)
        new = left & (observed > np.quantile(largest, 1 - ALPHA))
        if not new.any():
            break
        shown |= new
        left &= ~new
    return _ranges(shown)


def by_holm(values: Values, clusters: Labels, seed: int) -> Ranges:
    """Holm's correction over the (cluster) t tests of all pairs."""
    mean, covariance = _moments(values, clusters)
    m = len(mean)
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance - 2 * covariance, 1e-300))
    units = len(values) if clusters is None else len(np.unique(clusters))
    upper = np.triu_indices(m, 1)
    difference = (mean[:, None] - mean)[upper]
    t = np.abs(difference) / error[upper]
    p = np.where(np.abs(difference) < 1e-12, 1.0, 2 * stdtr(units - 1, -t))
    significant = holm(p) <= ALPHA
    shown = np.zeros((m, m), bool)
    shown[upper] = significant & (difference > 0)
    shown.T[upper] = significant & (difference < 0)
    return _ranges(shown)


def by_overlap(values: Values, clusters: Labels, seed: int) -> Ranges:
    """A system stands below those whose whole (cluster) t interval lies above its own."""
    mean, covariance = _moments(values, clusters)
    units = len(values) if clusters is None else len(np.unique(clusters))
    reach = stdtrit(units - 1, 1 - ALPHA / 2) * np.sqrt(np.diag(covariance))
    return _ranges((mean - reach)[:, None] > mean + reach)


def _moments(values: Values, clusters: Labels) -> tuple[Values, Values]:
    """Means, and the (cluster-robust) covariance of them."""
    units = to_clusters(values, clusters)
    g = len(units.sums)
    residual = units.sums - units.means * units.counts
    return units.means, residual.T @ residual * g / (g - 1) / units.n[0] ** 2


def _ranges(shown: npt.NDArray[np.bool_]) -> Ranges:
    return 1 + shown.sum(axis=0), len(shown) - shown.sum(axis=1)


WAYS: dict[str, Way] = {
    "flips": by_flips,
    "normal draws": by_normal_draws,
    "Holm, t": by_holm,
    "overlap": by_overlap,
}


@dataclass(frozen=True)
class Design:
    """Questions, and the haystacks that they are asked of."""

    name: str
    clusters: Labels
    n: int


def designs() -> list[Design]:
    """Independent questions, and haystacks: few, equal, very unequal."""
    generator = np.random.default_rng(0)
    pareto = np.maximum(1, np.round(5 * (1 + generator.pareto(1.2, 50)))).astype(int)
    sizes = {
        "6 haystacks of 20": [20] * 6,
        "10 haystacks of 22": [22] * 10,
        "10 haystacks: one of 180, nine of 5": [180, *[5] * 9],
        f"50 haystacks of {pareto.min()} to {pareto.max()} (Pareto)": list(pareto),
    }
    found = [Design(f"{n:,} questions", None, n) for n in (20, 65, 300)]
    for name, each in sizes.items():
        clusters = np.repeat(np.arange(len(each)), each)
        found.append(Design(name, clusters, len(clusters)))
    return found


def scores(generator: np.random.Generator, design: Design, true: Values, kind: str) -> Values:
    """One board's scores, (questions, systems), with means `true` in the long run.

    A question is as hard for all; a system does better on some haystacks and worse on others.
    """
    m, clusters = len(true), design.clusters
    hard = generator.normal(0, 0.12, (design.n, 1))
    if clusters is not None:
        g = int(clusters[-1]) + 1
        home = generator.normal(0, 0.1, (g, 1)) + generator.normal(0, 0.1, (g, m))
        hard = hard + home[clusters]
    # Cut symmetrically about the mean, which therefore stays.
    room = np.minimum(true, 1 - true)
    found = generator.random((design.n, m)) < true + np.clip(hard, -room, room)
    if kind == "0 or 1":
        return found.astype(float)
    # Reciprocal ranks: most are 0, few are 1.
    ranks = np.array([1, 1 / 2, 1 / 3, 1 / 5, 1 / 10])
    return np.where(found, generator.choice(ranks, found.shape), 0.0)


def skewed(generator: np.random.Generator, n: int) -> Values:
    """Two systems of the same mean, one of which wins seldom and much: what flips assume fails."""
    return np.stack([np.full(n, 0.1), generator.random(n) < 0.1], axis=1).astype(float)


def skewed_board(generator: np.random.Generator, n: int, steady: int) -> Values:
    """Twelve such systems, of which so many have 0.1 always."""
    values = (generator.random((n, 12)) < 0.1).astype(float)
    values[:, :steady] = 0.1
    return values


def tried(
    boards: int,
    make: Callable[[np.random.Generator], Values],
    clusters: Labels,
    true: Values,
    ways: Mapping[str, Way] = WAYS,
) -> Iterator[tuple[float, float]]:
    """Of each way: per cent of boards on which a range lacks its true rank, and the mean width."""
    best = 1 + (true[:, None] > true).sum(axis=0)
    worst = len(true) - (true[:, None] > true).sum(axis=1)
    wrong, width = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0.0)
    for at in range(boards):
        values = make(np.random.default_rng(at))
        for name, way in ways.items():
            low, high = way(values, clusters, at)
            wrong[name] += bool((low > best).any() or (high < worst).any())
            width[name] += float((high - low + 1).mean())
    for name in ways:
        yield 100 * wrong[name] / boards, width[name] / boards


def line(name: str, found: Iterator[tuple[float, float]], *, widths: bool) -> str:
    """A row of a Markdown table."""
    cells = [f"{wrong:.1f} ({width:.1f})" if widths else f"{wrong:.1f}" for wrong, width in found]
    return f"| {name} | {' | '.join(cells)} |"


def tables(boards: dict[int, int]) -> Iterator[str]:
    """All tables, line by line; so many boards for so many systems."""
    head = f"| systems, questions, values | {' | '.join(WAYS)} |\n|---|{'---:|' * len(WAYS)}"
    yield "## Equal systems: per cent of boards with any order at all, each of which is false\n"
    yield head
    for m, n in boards.items():
        true = np.full(m, 0.3)
        for design in designs():
            for kind in ("0 or 1", "reciprocal ranks"):
                make = partial(scores, design=design, true=true, kind=kind)
                found = tried(n, make, design.clusters, true)
                yield line(f"{m}, {design.name}, {kind}", found, widths=False)
    yield "\n## Unequal systems: per cent of boards with a false range (and the mean width)\n"
    yield head
    for m, n in boards.items():
        # A third alike, the others apart by as much each.
        true = np.concatenate([np.full(m - m * 2 // 3, 0.3), np.linspace(0.32, 0.7, m * 2 // 3)])
        for design in designs()[1:]:
            make = partial(scores, design=design, true=true, kind="0 or 1")
            found = tried(n, make, design.clusters, true)
            yield line(f"{m}, {design.name}, 0 or 1", found, widths=True)
    yield f"\n## Fifty equal systems, {8 * boards[50]:,} boards: per cent with any order at all\n"
    yield "| questions | 0 or 1 | reciprocal ranks |\n|---|---:|---:|"
    true, alone = np.full(50, 0.3), {"flips": by_flips}
    for design in designs():
        cells = []
        for kind in ("0 or 1", "reciprocal ranks"):
            make = partial(scores, design=design, true=true, kind=kind)
            ((wrong, _),) = tried(8 * boards[50], make, design.clusters, true, alone)
            cells.append(f"{wrong:.1f}")
        yield f"| {design.name} | {' | '.join(cells)} |"
    yield "\n## Where the assumption fails: one of two equal means by few and large wins\n"
    yield head
    for questions in (20, 65, 300, 1000):
        found = tried(boards[2], partial(skewed, n=questions), None, np.zeros(2))
        yield line(
            f"2, {questions:,} questions, 0.1 always against 1 in a tenth", found, widths=False
        )
    yield "\n## The same on boards of twelve: per cent with a false order, by flips\n"
    yield "| questions | one of twelve is always 0.1 | six of twelve are |\n|---|---:|---:|"
    for questions in (65, 100, 300, 1000):
        cells = []
        for steady in (1, 6):
            make = partial(skewed_board, n=questions, steady=steady)
            ((wrong, _),) = tried(boards[50] * 4 // 5, make, None, np.zeros(12), alone)
            cells.append(f"{wrong:.1f}")
        yield f"| {questions:,} questions | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--boards", type=int, default=500, help="of 50 systems (500)")
    least = parser.parse_args().boards
    boards = {2: 8 * least, 13: 2 * least, 50: least}
    errors = [f"{100 * np.sqrt(ALPHA * (1 - ALPHA) / n):.1f}" for n in boards.values()]
    print("# Ranges of ranks\n")
    print(
        "Simulated boards on which the range of one system or more does not hold its true rank,\n"
        f"in per cent: at most 5 is promised. Of 2, 13 and 50 systems there are {boards[2]:,},\n"
        f"{boards[13]:,} and {boards[50]:,} boards a line (Monte Carlo errors of\n"
        f"{', '.join(errors)} points). A question is as hard for every system, and a system\n"
        "does better on some haystacks than on others. `flips` is the package's: signs of whole\n"
        "haystacks are flipped. Beside it the authors' normal draws with the cluster-robust\n"
        "covariance, Holm over (cluster) t tests of all pairs, and (cluster) t intervals of\n"
        "single systems that do not overlap.\n"
        "Made by `python tests/benchmarks/rank_coverage.py`.\n"
    )
    for text in tables(boards):
        print(text, flush=True)


if __name__ == "__main__":
    main()
