"""Times the randomisation test beside SciPy and ranx, in one run.

    python tests/benchmarks/resampling.py [--repeat 3] [--queries 6980] [--metrics 8]

Every way makes the same number of resamples (10,000) of the same values, and is called once before
it is timed, on a few rows, so that neither imports nor ranx's compilation count. Prints medians as
a Markdown table; SciPy gets the batch that suits it best.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from harness.stats.clusters import Values, to_clusters
from harness.stats.paired import compare_paired
from harness.stats.resampling import sign_flip_test

RESAMPLES = 10_000
Way = Callable[[Values, Values], object]


def scipy_randomisation(a: Values, b: Values) -> object:
    """permutation_test of the differences, all metrics in one call."""
    from scipy.stats import permutation_test

    return permutation_test(
        (a - b,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=50,
        axis=0,
    ).pvalue


def ranx_randomisation(a: Values, b: Values) -> object:
    """ranx's test, which takes one metric at a time."""
    from ranx.statistical_tests import fisher_randomization_test

    return [
        fisher_randomization_test(x, y, RESAMPLES)
        for x, y in zip(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), strict=True)
    ]


def over_conversations(a: Values, b: Values) -> object:
    """Everything a comparison has, over ten clusters."""
    return compare_paired(a, b, np.arange(len(a)) % 10, resamples=RESAMPLES)


RANDOMISATION: dict[str, Way] = {
    "harness: sign_flip_test": lambda a, b: sign_flip_test(to_clusters(a - b), RESAMPLES, 0),
    "scipy.stats.permutation_test": scipy_randomisation,
    "ranx fisher_randomization_test": ranx_randomisation,
}
WHOLE: dict[str, Way] = {
    "harness: compare_paired": lambda a, b: compare_paired(a, b, resamples=RESAMPLES),
    "harness: compare_paired, 10 clusters": over_conversations,
}


def seconds(way: Way, a: Values, b: Values, repeat: int) -> float | None:
    """Median time of a way; None where its package is missing."""
    try:
        way(a[:20], b[:20])
    except ModuleNotFoundError:
        return None
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        way(a, b)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--queries", type=int, default=6_980)
    parser.add_argument("--metrics", type=int, default=8)
    options = parser.parse_args()
    generator = np.random.default_rng(7)
    a, b = generator.random((2, options.queries, options.metrics))
    print(
        f"{RESAMPLES:,} resamples of {options.queries:,} queries x {options.metrics} metrics, "
        f"medians of {options.repeat}\n"
    )
    print("| | seconds | times the harness's |\n|---|---:|---:|")
    for ways in (RANDOMISATION, WHOLE):
        first = None
        for name, way in ways.items():
            taken = seconds(way, a, b, options.repeat)
            if taken is None:
                print(f"| {name} | not installed | |", flush=True)
                continue
            first = first or taken
            print(f"| {name} | {taken:.3f} | {taken / first:.1f} |", flush=True)


if __name__ == "__main__":
    main()
