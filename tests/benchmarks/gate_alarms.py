"""How often a gate fails where nothing fell, and where something did, by simulation.

    python tests/benchmarks/gate_alarms.py [--gates 2000] > tests/benchmarks/gates.md

A gate asks that none of five metrics dropped, over all questions and in each of four abilities: 25
rules, with `max_drop` 0: the drop that is largest where nothing changed. `gate` is the package's
own; two-sided sign flips with Holm's correction are here to be compared with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis.drops import drops_of
from harness.stats.clusters import Values, to_clusters
from harness.stats.proportions import holm
from harness.stats.resampling import sign_flip_test

ALPHA = 0.05
FLIPS = 10_000
METRICS = 5
Labels = npt.NDArray[np.int64] | None


def run(generator: np.random.Generator, hard: Values, worse: float) -> Values:
    """recall, hit, ndcg, mrr and recall_all at 10 of questions with two pieces of evidence.

    The rank of a piece is e to the power of how hard the question is, and of luck.
    """
    luck = generator.normal(0, 1, (len(hard), 2))
    rank = np.ceil(np.exp(hard + luck + worse))
    found = rank <= 10
    gain = (found / np.log2(1 + rank)).sum(axis=1) / (1 + 1 / np.log2(3))
    first = rank.min(axis=1)
    recall = found.mean(axis=1)
    hit, every = found.any(axis=1), found.all(axis=1)
    return np.stack([recall, hit, np.minimum(gain, 1), hit / first, every], axis=1)


def two_runs(
    generator: np.random.Generator, clusters: Labels, n: int, worse: float
) -> tuple[Values, Values]:
    """Before and now, (questions, 25): the second is worse by so much, on the scale of log rank."""
    hard = generator.normal(1.5, 1, (n, 1))
    shift = np.full((n, 1), worse)
    if clusters is not None:
        g = int(clusters[-1]) + 1
        hard = hard + generator.normal(0, 0.7, (g, 1))[clusters]
        shift = shift + generator.normal(0, 0.3, (g, 1))[clusters]  # a change suits some users
    ability = generator.integers(0, 4, n)
    parts = [np.ones(n, bool), *(ability == k for k in range(4))]
    before, now = run(generator, hard, 0.0), run(generator, hard, shift)
    columns = [
        np.where(part[:, None], values, np.nan) for values in (before, now) for part in parts
    ]
    half = len(parts)
    return np.concatenate(columns[:half], axis=1), np.concatenate(columns[half:], axis=1)


def fails(before: Values, now: Values, clusters: Labels) -> tuple[bool, bool, bool]:
    """Whether the gate fails (status 1): gate, Holm within each metric, Holm over all 25."""
    labels = None if clusters is None else [str(label) for label in clusters]
    found = drops_of(before, now, [0.0] * before.shape[1], labels, "units", ALPHA)
    mine = any(drop.outcome == "fail" for drop in found)
    differences = before - now
    p = np.array([t.p for t in sign_flip_test(to_clusters(differences, clusters), FLIPS, 0)])
    fell = np.nanmean(differences, axis=0) > 0
    of_metric = np.arange(len(p)) % METRICS
    by_metric = any(
        (fell[of_metric == k] & (holm(p[of_metric == k]) <= ALPHA)).any() for k in range(METRICS)
    )
    return mine, by_metric, bool((fell & (holm(p) <= ALPHA)).any())


def rows(gates: int) -> Iterator[str]:
    """A line a design and a true change."""
    unequal = np.repeat(np.arange(10), [180, *[5] * 9])
    designs: dict[str, tuple[Labels, int]] = {
        "65 questions": (None, 65),
        "300 questions": (None, 300),
        "3 haystacks of 100": (np.repeat(np.arange(3), 100), 300),
        "6 haystacks of 50": (np.repeat(np.arange(6), 50), 300),
        "10 haystacks of 30": (np.repeat(np.arange(10), 30), 300),
        "10 haystacks: one of 180, nine of 5": (unequal, 225),
        "50 haystacks of 6": (np.repeat(np.arange(50), 6), 300),
    }
    for worse in (0.0, 0.4):
        for name, (clusters, n) in designs.items():
            counts = np.zeros(3)
            for at in range(gates):
                generator = np.random.default_rng(at)
                counts += fails(*two_runs(generator, clusters, n, worse), clusters)
            cells = " | ".join(f"{100 * count / gates:.1f}" for count in counts)
            change = "nothing fell" if worse == 0 else "all fell"
            yield f"| {change}, {name} | {cells} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gates", type=int, default=1_000)
    gates = parser.parse_args().gates
    error = 100 * np.sqrt(ALPHA * (1 - ALPHA) / gates)
    print("# Gates of 25 rules\n")
    print(
        f"Per cent of {gates:,} simulated gates that fail, alpha 0.05. Where nothing fell at most\n"
        f"5 may (Monte Carlo error of {error:.1f} points); where every number fell, by some 0.1,\n"
        "more are better. Five metrics over all questions and over four abilities, max_drop 0; a\n"
        "change suits some haystacks and not others. The other columns are two-sided sign flips,\n"
        "half of whose alpha is for drops.\n"
        "Made by `python tests/benchmarks/gate_alarms.py`.\n"
    )
    print("| true change, units | gate | Holm within each metric | Holm over all 25 |")
    print("|---|---:|---:|---:|")
    for text in rows(gates):
        print(text, flush=True)


if __name__ == "__main__":
    main()
