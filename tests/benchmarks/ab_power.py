"""False alarms and power of A/B tests, by simulation: why the report uses the tests that it does.

    python -m tests.benchmarks.ab_power [--tests 2000] > tests/benchmarks/ab_power.md

Each line simulates many tests whose truth is known, and counts those that find something at 5%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.stats.betting import betting_p
from harness.stats.proportions import binomial_p, sample_ratio
from harness.stats.sequential import mean_sequence
from tests.extensions.online.abtest import traffic

UNITS = 4_000
BLOCK = 250  # tests at a time, for memory
FIRST_LOOK = 200
LOOK = 100  # units between two looks at the sample ratio

HEAD = """\
# False alarms and power of A/B tests

{tests:,} simulated tests a line, at 5% (Monte Carlo error {error:.1f} points at 5%). *Once* is the
test of a fixed number of units, Welch's or of two proportions, at the end; *any time* the
always-valid p, looked at after every record; *mixture* and *betting* are its two ways.
Made by `python -m tests.benchmarks.ab_power`."""
ARMS = f"""\
Percent of tests that find something where nothing is, in {UNITS:,} units. Naive peeking looks at
the same test after every unit from {FIRST_LOOK} on, and stops at the first p below 0.05."""
USERS = """\
Percent of tests that find something where nothing is; 5,000 records of users who differ from each
other. In the last two columns a user counts once, by the mean of their records. New: one record in
ten is of a new user, else of any before. Pool: 1,000 users, all alike. Sessions: ten records in a
row. Power law, pareto: few users make most records. Rich get richer: who has more records comes
back more."""
ONE_STREAM = """\
Percent of streams of 2,000 values whose true mean is refuted: why the mixture is not for them."""
INTERLEAVED = """\
Impressions with which a test looked at once has 80% power, from 100,000 simulated questions: one
relevant document of ten; readers look at rank r with chance 0.85^(r-1), click the relevant one with
chance 0.6 and others with 0.05."""
ALARM = 0.001
"""The p value of an alarm about the split, 3.2905 standard errors."""

RATIOS = f"""\
Percent of tests of 20,000 units, split 50/50, with a p below 0.001: that of a single look, at the
end or at any of the looks after every {LOOK} units, and the always-valid one, which alone stops a
test."""


def percent(share: float) -> str:
    """A share of tests as a cell."""
    return f"{100 * share:.1f}"


def units(when: float) -> str:
    """A median number of units as a cell."""
    return "-" if np.isinf(when) else f"{when:,.0f}"


def arms(tests: int) -> Iterator[str]:
    """Two arms, each unit once."""
    generator = np.random.default_rng(1)
    yield "| split, metric | once | naive peeking | mixture | betting |"
    yield "|---|---:|---:|---:|---:|"
    power = []
    for split in (0.5, 0.1):
        for metric in (*traffic.METRICS, "seconds"):
            for changed in (False, True):
                once, peeked, p = [], [], {"mixture": [], "betting": []}
                for _ in range(tests // BLOCK):
                    values, in_a = traffic.two_arms(
                        generator, metric, BLOCK, UNITS, split, changed=changed
                    )
                    below = traffic.fixed_p_below(values, in_a)
                    once.append(below[:, -1])
                    peeked.append(below[:, FIRST_LOOK:].any(axis=1))
                    for way in p if metric != "seconds" else ("mixture",):
                        p[way].append(traffic.always_p(values, in_a, split, way))
                found = {
                    way: traffic.shown(np.concatenate(paths)) if paths else None
                    for way, paths in p.items()
                }
                name = f"{100 * split:.0f}/{100 - 100 * split:.0f}, {metric}"
                if changed:
                    cells = [
                        f"{percent(cell[0])} ({units(cell[1])})" if cell else "-"
                        for cell in found.values()
                    ]
                    power.append(f"| {name} | {percent(np.mean(once))} | {' | '.join(cells)} |")
                else:
                    cells = [percent(cell[0]) if cell else "-" for cell in found.values()]
                    yield (
                        f"| {name} | {percent(np.mean(once))} | {percent(np.mean(peeked))} | "
                        f"{' | '.join(cells)} |"
                    )
    yield (
        f"\n### Power with {UNITS:,} units\n\nPercent of tests that find a true difference, and in "
        "brackets the median number\nof units at which p first reaches 0.05. The differences: "
        + "; ".join(f"{metric}, {effect(metric):+.3f}" for metric in traffic.METRICS)
        + "; seconds, 15% less.\n"
    )
    yield "| split, metric | once, at the end | mixture | betting |"
    yield "|---|---:|---:|---:|"
    yield from power


def effect(metric: str) -> float:
    """The true difference of a changed metric."""
    values, old, new = (np.array(part) for part in traffic.METRICS[metric])
    return float(values @ new / new.sum() - values @ old / old.sum())


def users(tests: int) -> Iterator[str]:
    """Users who come back; nothing is there to be found."""
    generator = np.random.default_rng(2)
    yield (
        "| how they come back, metric | records taken as independent | mean over records, cluster-"
        "robust | users, once | any time |\n|---|---:|---:|---:|---:|"
    )
    for pattern in traffic.ARRIVALS:
        for kind in ("click", "recall", "seconds"):
            rows = [traffic.user_test(generator, pattern, kind, 5_000) for _ in range(tests)]
            *fixed, p = np.array(rows).T
            cells = (*(found.mean() for found in fixed), (p <= 0.05).mean())
            yield f"| {pattern}, {kind} | {' | '.join(map(percent, cells))} |"


def one_stream(tests: int) -> Iterator[str]:
    """One stream against its true mean."""
    generator = np.random.default_rng(3)
    yield "| metric | mixture | betting |"
    yield "|---|---:|---:|"
    for metric, (values, chances, _) in traffic.METRICS.items():
        mean = float(np.dot(values, chances) / sum(chances))
        x = traffic.draw(generator, metric, (tests, 2_000), changed=False)
        found = [traffic.shown(p)[0] for p in (mean_sequence(x, null=mean).p, betting_p(x, mean))]
        yield f"| {metric} | {' | '.join(map(percent, found))} |"
    x = traffic.draw(generator, "seconds", (tests, 2_000), changed=False)
    yield f"| seconds | {percent(traffic.shown(mean_sequence(x, null=np.exp(0.5)).p)[0])} | - |"


def interleaved(tests: int) -> Iterator[str]:
    """Impressions that show a difference with 80% power, split and interleaved."""
    generator = np.random.default_rng(4)
    yield (
        "| relevant document one place lower in | split, reciprocal rank of the first click "
        "| interleaved | ratio |\n|---|---:|---:|---:|"
    )
    for shift in (0.1, 0.3, 1.0):
        seen = traffic.impressions(generator, 100_000, shift)
        split = traffic.units_for_power(
            seen.first_a.mean() - seen.first_b.mean(),
            float(np.sqrt(2 * (seen.first_a.var() + seen.first_b.var()))),
        )
        both = traffic.units_for_power(seen.outcome.mean(), seen.outcome.std())
        yield f"| {100 * shift:.0f}% of queries | {split:,.0f} | {both:,.0f} | {split / both:.0f} |"
    yield (
        "\nFalse alarms, in percent, where half of the readers prefer a and half b\n(2,000 "
        "impressions, of 2,000 readers, or of 400 who come back):\n"
    )
    yield "| readers come back | sign test, once | any time |\n|---|---:|---:|"
    for back in (False, True):
        once, always = [], []
        for _ in range(tests):
            n = 400 if back else 2_000
            unit = generator.integers(0, n, 2_000) if back else np.arange(2_000)
            leaning = generator.choice([-0.3, 0.3], n)[unit]
            outcome = np.sign(generator.random(2_000) - 0.5 + leaning)
            outcome *= generator.random(2_000) < 0.4
            net = np.bincount(unit, outcome, n)
            won = int((net > 0).sum())
            once.append(binomial_p(won, won + int((net < 0).sum())) <= 0.05)
            p = mean_sequence(outcome, unit).p if back else betting_p(outcome, 0, (-1, 1))
            always.append(p[-1] <= 0.05)
        cells = (percent(np.mean(once)), percent(np.mean(always)))
        yield f"| {'yes' if back else 'no'} | {' | '.join(cells)} |"


def ratios(tests: int) -> Iterator[str]:
    """Alarms of the sample-ratio check."""
    generator = np.random.default_rng(5)
    yield "| units of b that are lost | once | once, looked at again and again | any time |"
    yield "|---|---:|---:|---:|"
    for lost in (0.0, 0.01, 0.03, 0.1):
        share = 0.5 / (1 - 0.5 * lost)
        streams = [generator.random(20_000) < share for _ in range(tests)]
        found = [sample_ratio(in_a) for in_a in streams]
        cells = (
            np.mean([ratio.p < ALARM for ratio in found]),
            np.mean([_peeked(in_a) for in_a in streams]),
            np.mean([ratio.alarm for ratio in found]),
        )
        yield f"| {100 * lost:.0f}% | {' | '.join(f'{100 * cell:.2f}' for cell in cells)} |"


def _peeked(in_a: npt.NDArray[np.bool_]) -> bool:
    """Whether the chi-square test is below `ALARM` at any look; it is 3.2905 standard errors."""
    n = np.arange(LOOK, len(in_a) + 1, LOOK)
    return bool((np.abs(in_a.cumsum()[n - 1] - n / 2) > 3.2905 * np.sqrt(n) / 2).any())


def main() -> None:
    """Print the whole page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=2_000, help="a line")
    tests = parser.parse_args().tests // BLOCK * BLOCK
    error = 100 * np.sqrt(0.05 * 0.95 / tests)
    print(HEAD.format(tests=tests, error=error))
    for title, said, rows in (
        ("Two arms, each unit once", ARMS, arms(tests)),
        ("Users who come back", USERS, users(tests)),
        ("One stream", ONE_STREAM, one_stream(tests)),
        ("Interleaving", INTERLEAVED, interleaved(tests)),
        ("Sample ratio", RATIOS, ratios(tests)),
    ):
        print(f"\n## {title}\n\n{said}\n")
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
